// `postern cert` makes self-signed certificates like those that a start in development makes (D92, D95).

import { systemClock } from '../base/clock.ts';
import { UsageError } from '../base/errors.ts';
import { createFolder } from '../bootstrap/key-files.ts';
import { ownTlsPlace } from '../bootstrap/key-paths.ts';
import { asciiDomain } from '../mail/address/domain.ts';
import { configOption, defineCommand } from './command/command.ts';
import { defineGroup } from './command/command-table.ts';
import { configExitCode, configFor } from './command/load-config.ts';

const selfSigned = defineCommand({
  name: 'self-signed',
  summary: 'Make a self-signed certificate for a host name',
  synopsis: 'HOST',
  arguments: { min: 1, max: 1 },
  details: `Writes certs/tls/HOST/fullchain.pem and privkey.pem (mode 0600) under certsDir: EC P-256, ten years, for HOST,
localhost, 127.0.0.1 and ::1. Programs that verify certificates must be given fullchain.pem to trust. What is in the folder
is never replaced.`,
  options: { ...configOption },
  examples: ['postern cert self-signed mx.example.com'],
  exitCodes: { 1: 'there is something already', ...configExitCode },
  async run({ options, args: [given = ''] }, io) {
    const host = asciiDomain(given);
    if (host === undefined) throw new UsageError(`got "${given}", want a domain name`);
    const { folder, certificateFile, privateKeyFile } = ownTlsPlace(configFor(io, options.config).certsDir, host);
    // Loaded only here, because the library that it uses takes longer to load than the rest of the program.
    const { makeCertificate } = await import('../bootstrap/certificate.ts');
    const { certificate, privateKey } = await makeCertificate(host, systemClock.now());
    if (!createFolder(folder, { 'fullchain.pem': certificate, 'privkey.pem': privateKey })) {
      io.stderr.write(`There is something already: ${folder}; move it away first.\n`);
      return 1;
    }
    io.stderr.write(`Wrote ${certificateFile}\nWrote ${privateKeyFile}\n`);
    return 0;
  },
});

/** The commands about certificates. */
export const certCommands = defineGroup(
  'cert',
  { summary: 'Make self-signed certificates' },
  { 'self-signed': { summary: selfSigned.summary, load: () => Promise.resolve(selfSigned) } },
);

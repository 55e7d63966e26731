// `postern edge` exports the zones for operators whose own proxy serves them, and has Postern answer what fails (D66).

import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { closest } from '../../base/closest.ts';
import { errorMessage, UsageError } from '../../base/errors.ts';
import { createCertificateFinder } from '../../base/net/find-certificate.ts';
import { parseListen } from '../../config/addresses.ts';
import { caddyEdge } from '../../edge/export/caddy.ts';
import {
  type EdgeExportSettings,
  type EdgeFormatName,
  type EdgeFormatWriter,
  edgeFormats,
  exportEdge,
  type ListenPlace,
} from '../../edge/export/export-edge.ts';
import { haproxyEdge } from '../../edge/export/haproxy.ts';
import { nginxEdge } from '../../edge/export/nginx.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { defineGroup } from '../command/command-table.ts';
import { configExitCode, configFor } from '../command/load-config.ts';

const defaultCaFile = '/etc/ssl/certs/ca-certificates.crt';
const defaultListen = '0.0.0.0:80';

const writers = { nginx: nginxEdge, haproxy: haproxyEdge, caddy: caddyEdge } as const satisfies Record<
  EdgeFormatName,
  EdgeFormatWriter
>;

function writerOf(text: string | undefined): EdgeFormatWriter {
  const found = edgeFormats.find((format) => format === text);
  if (found) return writers[found];
  const near = text === undefined ? undefined : closest(text, [...edgeFormats]);
  const got = text === undefined ? '' : `got "${text}", `;
  throw new UsageError(`--format: ${got}${near ? `did you mean "${near}"?` : `want one of ${edgeFormats.join(', ')}`}`);
}

function placeOf(option: string, text: string): ListenPlace {
  const read = parseListen(text);
  if (read && read.port > 0) return read;
  throw new UsageError(`--${option}: got "${text}", want an IP address with a port, such as 127.0.0.1:8080`);
}

/** Where a proxy on this machine finds what listens there. */
function reachable({ host, port }: ListenPlace): ListenPlace {
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port };
}

const exportCommand = defineCommand({
  name: 'export',
  summary: 'Write the zones as the configuration of a proxy that asks Postern only about failures',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details:
    'Reads the zones of the configuration. The proxy takes requests to their origins itself, and has Postern answer those that\n' +
    'fail, with the error, the form and the rules of the edge. A zone that the format cannot hold is left out; that and what else\n' +
    'differs is told on standard error and in comments of the output. See docs/edge-behind-a-proxy.md.',
  options: {
    format: { value: 'FORMAT', short: 'f', summary: `${edgeFormats.join(', ')} (required)` },
    output: { value: 'FILE', short: 'o', summary: 'write to FILE (default: standard output)' },
    listen: { value: 'HOST:PORT', summary: `where the proxy listens for HTTP (default: ${defaultListen})` },
    'tls-listen': { value: 'HOST:PORT', summary: 'where it listens for HTTPS (default: nowhere)' },
    postern: { value: 'HOST:PORT', summary: "where it finds Postern (default: the configuration's http.listen)" },
    'ca-file': { value: 'FILE', summary: `authorities of origins with https, PEM (default: ${defaultCaFile})` },
    strict: { summary: 'write nothing and exit with 1 where a zone would be left out' },
    ...configOption,
  },
  examples: [
    'postern edge export --format nginx --tls-listen 0.0.0.0:443 --output /etc/nginx/conf.d/postern.conf',
    'postern edge export --format caddy --postern 192.0.2.5:8080',
  ],
  exitCodes: { 1: 'the output failed, or --strict and a zone cannot be written', ...configExitCode },
  run: ({ options }, io) => {
    const writer = writerOf(options.format);
    const given = (option: 'listen' | 'tls-listen' | 'postern'): ListenPlace | undefined => {
      const text = options[option];
      return text === undefined ? undefined : placeOf(option, text);
    };
    const config = configFor(io, options.config);
    const findCertificate = createCertificateFinder(join(config.certsDir, 'tls'));
    const settings: EdgeExportSettings = {
      listen: given('listen') ?? placeOf('listen', defaultListen),
      tlsListen: given('tls-listen'),
      postern: given('postern') ?? reachable(config.http.listen),
      certificateFolder: (name) => findCertificate(name)?.folder,
      caFile: resolve(io.cwd, options['ca-file'] ?? defaultCaFile),
      edge: config.edge,
    };
    const { text, gaps } = exportEdge(writer, config.zones, settings);
    for (const { zone, leftOut, text: gap } of gaps) {
      io.stderr.write(
        zone === undefined ? `note: ${gap}\n` : `zone ${zone}: ${leftOut ? 'NOT EXPORTED: ' : ''}${gap}\n`,
      );
    }
    if (options.strict && gaps.some(({ leftOut }) => leftOut)) return Promise.resolve(1);
    if (options.output === undefined) io.stdout.write(text);
    else writeOutput(resolve(io.cwd, options.output), text);
    return Promise.resolve(0);
  },
});

function writeOutput(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    throw new Error(`Cannot write "${file}": ${errorMessage(cause)}`, { cause });
  }
}

/** The commands about the edge. */
export const edgeCommands = defineGroup(
  'edge',
  { summary: 'Have another proxy serve the zones, and Postern answer what fails' },
  { export: { summary: exportCommand.summary, load: () => Promise.resolve(exportCommand) } },
);

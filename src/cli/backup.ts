// postern backup writes the gateway's state to one file; postern restore puts it back (D89, D94).

import { join, resolve } from 'node:path';
import type { Config } from '../app/config/config.ts';
import { tableVersions } from '../app/wiring/table-versions.ts';
import { UsageError } from '../base/errors.ts';
import { type Progress, restoreBackup } from '../spool/backup/backup-file.ts';
import { takeBackup } from '../spool/backup/take-backup.ts';
import { type CommandIo, defineCommand, print } from './command/command.ts';
import { tellProgress } from './command/tell-progress.ts';

function progressOn(io: CommandIo): Progress {
  const tell = tellProgress(io);
  return (step, fraction) => tell(`${step}: ${Math.floor(fraction * 100)} %`);
}

/** The database file and the folder of bodies of a configuration. @throws UsageError where the database is PostgreSQL */
function places({ database, dataDir }: Config): { readonly database: string; readonly bodiesFolder: string } {
  if (database.engine !== 'sqlite') {
    throw new UsageError(
      'The database is PostgreSQL, which has everything: back it up with its own tools (pg_basebackup, pg_dump)',
    );
  }
  return { database: database.file, bodiesFolder: join(dataDir, 'bodies') };
}

const whatItKeeps = `It holds the database (the queue with its failed messages, tokens, suppressions, proxy applications, custom error
rules, what accounts have sent today) and the bodies of queued messages. Not in it: captured mail, and everything under
certsDir (DKIM keys, certificates, hmac.key), which is to be kept elsewhere.`;

/** postern backup */
export const backupCommand = defineCommand({
  synopsis: 'FILE',
  details: `${whatItKeeps}

The file is of one moment, though mail flows meanwhile; a message that is delivered while the backup is taken may be left
out. It appears whole and with mode 0600, or not at all. It has the text of mail in it: keep it as you keep mail.`,
  options: { force: { summary: 'replace FILE where it is there' } },
  examples: ['postern backup /backup/postern-$(date +%F).db'],
  exitCodes: { 1: 'FILE is there already or cannot be written, or a message was damaged and is left out' },
  async run({ options, args: [file = ''], readConfig }, io) {
    const made = await takeBackup({
      ...places(readConfig()),
      target: resolve(io.cwd, file),
      force: options.force === true,
      now: Date.now(),
      progress: progressOn(io),
    });
    for (const id of made.damaged)
      io.stderr.write(`The body of message ${id} is missing from the data folder: the message is left out\n`);
    io.stdout.write(
      `Wrote ${file}: ${made.octets} octets, ${made.messages} messages, ${made.bodies} with a large body\n`,
    );
    return made.damaged.length === 0 ? 0 : 1;
  },
});

/** postern restore */
export const restoreCommand = defineCommand({
  synopsis: 'FILE',
  details: `${whatItKeeps}

FILE is read whole and checked before anything is changed. What was queued when the backup was taken is sent again by the
next start, also what has been delivered since. Run it as the user that the server runs as. There must be room for twice
the backup.`,
  options: { force: { summary: 'replace the database of a data folder that has one with something in it' } },
  examples: ['postern restore /backup/postern-2026-11-22.db'],
  exitCodes: {
    1: 'FILE is no backup or is damaged, a server runs, or the data folder has something and --force is not given',
  },
  run({ options, args: [file = ''], readConfig }, io) {
    const { messages, bodies } = restoreBackup({
      ...places(readConfig()),
      file: resolve(io.cwd, file),
      versions: tableVersions,
      force: options.force === true,
      progress: progressOn(io),
    });
    return print(io, `Restored ${messages} messages, ${bodies} with a large body`);
  },
});

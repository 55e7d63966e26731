import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseDocument } from 'yaml';
import type { Config } from '../app/config/config.ts';
import { askForFile, askToReload } from '../app/wiring/server-socket.ts';
import { ConfigurationError } from '../base/errors.ts';
import { type CommandIo, defineCommand, fail, print } from './command/command.ts';

/** The configuration file, and the data folder that it or the environment names; undefined where none is to be found in it. */
function namedDataDir(io: CommandIo, option: string | undefined): { file: string; dataDir: string | undefined } {
  const file = option ?? (io.env['POSTERN_CONFIG'] || 'config/postern.yaml');
  const given = io.env['POSTERN_DATA_DIR']?.trim();
  if (given) return { file, dataDir: resolve(io.cwd, given) };
  try {
    const text = readFileSync(resolve(io.cwd, file), 'utf8');
    const named: unknown = parseDocument(text, { logLevel: 'silent' }).get('dataDir');
    return { file, dataDir: typeof named === 'string' ? resolve(io.cwd, named) : undefined };
  } catch {
    return { file, dataDir: undefined };
  }
}

/** The data folder, and why the configuration cannot be read. @throws ConfigurationError where a file is named that is not there */
function addressOf(io: CommandIo, option: string | undefined, readConfig: () => Config) {
  try {
    return { dataDir: readConfig().dataDir };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const { file, dataDir } = namedDataDir(io, option);
    const isNamed = option !== undefined || io.env['POSTERN_CONFIG'];
    if (dataDir === undefined && isNamed && !existsSync(resolve(io.cwd, file))) throw error;
    return { dataDir: dataDir ?? resolve(io.cwd, 'data'), fault: error };
  }
}

/** @throws ConfigurationError where a file is named that is not the one that the server reads, as far as that one can be seen from here */
async function demandItsFile(io: CommandIo, option: string | undefined, dataDir: string): Promise<void> {
  const named = option ?? io.env['POSTERN_CONFIG'];
  const served = named ? await askForFile(dataDir) : undefined;
  if (!named || served === undefined) return;
  const file = resolve(io.cwd, named);
  const [wanted, read] = [file, served].map((path) => statSync(path, { bigint: true, throwIfNoEntry: false }));
  if (file === served || !read || (wanted?.dev === read.dev && wanted.ino === read.ino)) return;
  throw new ConfigurationError(
    `the server on ${dataDir} reads ${served}, not ${file}: name that file, or none. Nothing has changed.`,
  );
}

/** postern reload asks the running server to read its configuration, keys and certificates again. */
export const command = defineCommand({
  details: `The server is found by its data folder, in which it has the socket postern.sock. It reads the file that it was
started with, under the environment that it was started with, and takes everything on or nothing: with a fault in it
nothing changes, and the faults are printed here. To name another file is a fault. Connections stay. What only a restart can change, such as dataDir or
http.listen (docs/upkeep.md has them all), is a fault. SIGHUP to the server does the same and tells its log.`,
  options: {},
  examples: ['postern reload', 'postern reload --config /etc/postern/postern.yaml'],
  exitCodes: {
    1: 'no server runs on the data folder, or it gave no answer',
    78: 'the configuration has faults, or the server reads another file: nothing has changed',
  },
  async run({ options, readConfig }, io) {
    const { dataDir, fault } = addressOf(io, options.config, readConfig);
    await demandItsFile(io, options.config, dataDir);
    const outcome = await askToReload(dataDir);
    if (!outcome) {
      if (fault) throw fault;
      const { file, dataDir: named } = namedDataDir(io, options.config);
      return fail(
        io,
        `no server is running on ${dataDir}${named ? '' : `, the default, since ${file} names no dataDir`}`,
      );
    }
    if (!outcome.ok) throw new ConfigurationError(`${outcome.faults.join('\n')}\nNothing has changed.`);
    return print(io, `reloaded: ${outcome.changed.length > 0 ? outcome.changed.join(', ') : 'nothing has changed'}`);
  },
});

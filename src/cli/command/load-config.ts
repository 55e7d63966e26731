// Loads the configuration that a command line names.

import { type Config, loadConfig } from '../../config.ts';
import type { CommandIo } from './command.ts';

/** Loads the configuration file of the command line, else POSTERN_CONFIG's, else the default. @throws ConfigurationError */
export function configFor(io: CommandIo, file: string | undefined): Config {
  return loadConfig({ env: io.env, cwd: io.cwd, ...(file === undefined ? {} : { file }) });
}

/** The exit code of every command that reads the configuration. */
export const configExitCode = { 78: 'the configuration is wrong' } as const;

// GET /settings: the configuration in force, where it came from, and how the last reload went.

import { Type } from 'typebox';
import { component, endpointsAt } from '../../http/endpoint.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { isoTime, time } from '../schemas.ts';

/** How a reload went; times are milliseconds since 1970. */
export interface ToldReload {
  readonly at: number;
  readonly why: string;
  readonly ok: boolean;
  /** What changed, or the faults: one line each. */
  readonly lines: readonly string[];
}

interface ToldSettings {
  /** Absolute path of the file. */
  readonly file: string;
  readonly isDevelopment: boolean;
  /** As the gateway reads it: defaults filled in, secrets hidden. */
  readonly config: unknown;
  readonly warnings: readonly string[];
  /** When the configuration in force was read. */
  readonly loadedAt: number;
  /** Absent: there was none since the start. */
  readonly lastReload?: ToldReload;
}

const lines = Type.Array(Type.String());

/** The answer. */
export const settings = component('Settings', {
  file: Type.String(),
  mode: Type.Enum(['development', 'production']),
  loaded_at: time,
  warnings: lines,
  last_reload: Type.Union([
    Type.Object({ at: time, why: Type.String(), ok: Type.Boolean(), changed: lines, faults: lines }),
    Type.Null(),
  ]),
  config: Type.Record(Type.String(), Type.Unknown(), { description: 'Defaults filled in, secrets hidden' }),
});

function shownReload({ at, why, ok, lines: told }: ToldReload) {
  return { at: isoTime(at), why, ok, changed: ok ? told : [], faults: ok ? [] : told };
}

/** The endpoint. @param read gives what there is to tell, at each request */
export function settingsEndpoint(read: () => ToldSettings): V4Plugin {
  return (app) =>
    endpointsAt(app, { path: '/settings', tag: 'Settings', reads: 'admin' })(
      'GET',
      {
        operationId: 'getSettings',
        summary: 'Tell the configuration in force',
        description: 'Without secrets. It is that of the process that answers.',
        result: settings,
      },
      () => {
        const { file, isDevelopment, config, warnings, loadedAt, lastReload } = read();
        return {
          ...{ file, mode: isDevelopment ? 'development' : 'production', loaded_at: isoTime(loadedAt), warnings },
          last_reload: lastReload ? shownReload(lastReload) : null,
          config,
        };
      },
    );
}

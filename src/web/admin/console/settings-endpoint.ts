// GET /settings: the configuration in force, where it came from, and how the last reload went.

import { type Static, Type } from 'typebox';
import { component, endpoint, endpointsOf } from '../../http/endpoint.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { time } from '../schemas.ts';

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

/** What the answer tells. */
export type ToldSettings = Omit<Static<typeof settings>, 'config'> & { readonly config: unknown };

const getSettings = endpoint({
  at: 'GET',
  operationId: 'getSettings',
  summary: 'Tell the configuration in force',
  description: 'Without secrets. It is that of the process that answers.',
  result: settings,
  answer: (_asked, read: () => ToldSettings) => read(),
});

/** The endpoint. @param read gives what there is to tell, at each request */
export function settingsEndpoint(read: () => ToldSettings): V4Plugin {
  return endpointsOf({ path: '/settings', tag: 'Settings', reads: 'admin' }, read, [getSettings]);
}

// Every place of the source where an account, a scope or an owner decides what somebody gets, and some bounds, with what stands
// there once the guard is taken out and the tests of which one has to fail then. `run.ts` shows that they do.

import type { Guard } from './guard.ts';
import { bounds } from './rows/bounds.ts';
import { callers } from './rows/callers.ts';
import { commands } from './rows/commands.ts';
import { journal } from './rows/journal.ts';
import { mail } from './rows/mail.ts';
import { postgresGuards } from './rows/postgres.ts';
import { returns } from './rows/returns.ts';
import { shadowGuards } from './rows/shadow.ts';
import { shown } from './rows/shown.ts';
import { zonesGuards } from './rows/zones.ts';

/** All of them. */
export const guards: readonly Guard[] = [
  ...bounds,
  ...callers,
  ...commands,
  ...journal,
  ...mail,
  ...postgresGuards,
  ...returns,
  ...shadowGuards,
  ...shown,
  ...zonesGuards,
];

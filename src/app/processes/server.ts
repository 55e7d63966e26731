// A server at work, of one process or of several, as the command that runs it sees it.

import type { DestinationView } from '../../delivery/transport.ts';
import type { Config } from '../config/config.ts';
import type { Listening } from '../wiring/addresses.ts';
import type { ReloadOutcome } from '../wiring/reload.ts';

/** A server that runs. */
export interface Server {
  /** The configuration in force. */
  readonly config: Config;
  /** Every listener that is open; empty where a signal came before. */
  readonly listening: readonly Listening[];
  /** Reads the configuration again and puts it in force, whole or not at all. Never rejects. @param why who asked, for the log */
  reload(why: string): Promise<ReloadOutcome>;
  /** The next hops of mail as they are served now. */
  destinations(): readonly DestinationView[] | Promise<readonly DestinationView[]>;
  /** Stops accepting connections, lets what is in flight finish, and closes everything (D97). */
  stop(): Promise<void>;
  /** Ends processes of the server beside this one at once. */
  kill?(): void;
}

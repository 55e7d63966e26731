// What the supervisor and the processes that serve say to one another, over the channel that Node opens between them.

import type {
  CarrierAnswer,
  CarrierQuestion,
  MetricValues,
  SlotWanted,
  WindowLimit,
} from '../../base/process-group.ts';
import type { DestinationView } from '../../delivery/transport.ts';
import type { Listening } from '../wiring/addresses.ts';
import type { ReloadOutcome } from '../wiring/reload.ts';
import type { ChosenPorts } from './fixed-ports.ts';

/** The exit code of a process whose start may pass later (sysexits.h, EX_TEMPFAIL): its database cannot be used now. */
export const temporaryFailure = 75;

/** What a process is started with. */
export interface StartOrder {
  /** From 1; no two that run have the same. */
  readonly number: number;
  readonly count: number;
  /** Counts the configurations that were in force. */
  readonly version: number;
  readonly text: string;
  readonly file?: string;
  readonly ports: ChosenPorts;
}

/** A client's window, which is asked about. */
export interface AskedWindow {
  readonly name: string;
  readonly limit: WindowLimit;
  readonly address: string;
}

/** What a process asks the supervisor, each with its answer. The first five are about limits that hold for all processes. */
export interface Questions {
  readonly takePlaces: { readonly asked: readonly SlotWanted[]; readonly answer: number | null };
  readonly askPlaces: { readonly asked: readonly SlotWanted[]; readonly answer: number | null };
  readonly takeMinute: { readonly asked: { account: string; limit: number }; readonly answer: number };
  readonly askMinute: { readonly asked: { account: string; limit: number }; readonly answer: number };
  readonly takeWindow: { readonly asked: AskedWindow; readonly answer: number };
  readonly metrics: { readonly asked: MetricValues; readonly answer: string };
  /** Whether one process takes connections and mail, and none says that it takes no mail. */
  readonly ready: { readonly asked: null; readonly answer: boolean };
  /** What the process on duty tells of the proxy applications; absent where it gives no answer. */
  readonly applications: { readonly asked: CarrierQuestion; readonly answer: CarrierAnswer | undefined };
}

/** A question of a process with what it asks. */
export type Question = {
  readonly [About in keyof Questions]: { readonly about: About; readonly asked: Questions[About]['asked'] };
}[keyof Questions];

/** What the supervisor asks a process, each with its answer. */
export interface Inquiries {
  readonly alive: { readonly asked: null; readonly answer: true };
  readonly values: { readonly asked: null; readonly answer: MetricValues };
  readonly destinations: { readonly asked: null; readonly answer: readonly DestinationView[] };
  readonly ready: { readonly asked: null; readonly answer: boolean };
  readonly applications: { readonly asked: CarrierQuestion; readonly answer: CarrierAnswer };
  /** Get ready for this configuration. The answer is that it is, or how the reload has ended where it cannot. */
  readonly reload: { readonly asked: string; readonly answer: 'prepared' | ReloadOutcome };
  /** Take it, or, where there are faults, stay as you are. */
  readonly decide: { readonly asked: readonly string[]; readonly answer: ReloadOutcome };
}

/** From the supervisor to a process. */
export type ToProcess =
  | ({ readonly kind: 'start' } & StartOrder)
  | { readonly kind: 'answer'; readonly id: number; readonly answer: unknown }
  | { readonly kind: 'inquire'; readonly id: number; readonly about: keyof Inquiries; readonly asked: unknown }
  /** This process does from now on what exactly one does. */
  | { readonly kind: 'duty' }
  | { readonly kind: 'failure'; readonly address: string }
  | { readonly kind: 'drain' };

/** From a process to the supervisor. */
export type FromProcess =
  /** It hears; what was said before may be lost. */
  | { readonly kind: 'hello' }
  | ({ readonly kind: 'ask'; readonly id: number } & Question)
  | { readonly kind: 'told'; readonly id: number; readonly answer: unknown }
  | { readonly kind: 'placesBack'; readonly keys: readonly string[] }
  | { readonly kind: 'minuteBack'; readonly account: string }
  | { readonly kind: 'failure'; readonly address: string }
  | { readonly kind: 'serving'; readonly listening: readonly Listening[] }
  /** It has got a signal to stop, and nobody else has told it to drain. */
  | { readonly kind: 'draining' }
  /** It cannot start, and ends. */
  | { readonly kind: 'failed'; readonly exitCode: number; readonly reason: string };

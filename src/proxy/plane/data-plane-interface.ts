// What the data plane gives the API and the metrics (D84).

import type { ApplicationStatus, ConnectionEvent, ForwardingPlan, Traffic } from '../application/application.ts';
import type { Origins } from '../origins/origin.ts';
import type { BudgetCounts } from '../traffic/open-budget.ts';

/** What the metrics tell of one application. */
export interface ApplicationReport {
  readonly plan: Pick<ForwardingPlan, 'id' | 'name' | 'transport' | 'ports'>;
  readonly status: ApplicationStatus;
  /** Of the origins that are known now, in all and those whose last connection failed. */
  readonly origins: { readonly known: number; readonly failing: number };
  readonly datagramsDropped: number;
}

/** The listeners and connections of all applications. */
export interface DataPlane {
  /**
   * Makes listeners equal to the plans of the store: opens, changes, closes. Resolves when every application that
   * changed has its status. Calls at once run one after another, and never throw: a failure is a status, and is tried again.
   */
  reconcile(): Promise<void>;
  /** Looks now whether certificates in use were renewed, as it does by itself now and then. */
  renewCertificates(): void;
  /** `pending` for an application that it has not seen. */
  status(application: string): ApplicationStatus;
  /** Counters, the latest events, the newest first, its sockets and its origins; undefined for an application that it has not seen. */
  traffic(application: string):
    | {
        readonly counters: Traffic;
        readonly events: readonly ConnectionEvent[];
        /** Where its sockets are bound, after the offset: `127.0.0.1:20022`, `[::1]:21000-22000`. */
        readonly listening: readonly string[];
        readonly origins?: ReturnType<Origins['health']>;
      }
    | undefined;
  /** How each application is, for the metrics. */
  reports(): readonly ApplicationReport[];
  /** All counters, for the metrics. */
  totals(): ReadonlyMap<string, Traffic>;
  /** What all applications together have open, beside what they may have. */
  open(): BudgetCounts & { readonly listeners: number; readonly maxListeners: number };
  /** Stops listening, lets connections finish, and cuts what is left after so many milliseconds. */
  drain(withinMs: number): Promise<void>;
}

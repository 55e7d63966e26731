// Keeps the status of each application, and writes it to the log.

import type { Logger } from '../../base/log.ts';
import type { ApplicationStatus, ForwardingPlan } from '../application/application.ts';
import { joinReasons } from '../application/quote.ts';

/** Sockets of an application, neighbouring ports together, that one line of the log tells. */
const mostTold = 8;

/** Whether other machines alone serve an application. */
export function isElsewhere({ addresses, elsewhere }: Pick<ForwardingPlan, 'addresses' | 'elsewhere'>): boolean {
  return addresses.length === 0 && elsewhere !== undefined;
}

/** The statuses of all applications, by id. */
export class ApplicationStatuses {
  readonly #log: Logger;
  readonly #statuses = new Map<string, ApplicationStatus>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** The status of an application; undefined before its listeners were opened for the first time. */
  of(application: string): ApplicationStatus | undefined {
    return this.#statuses.get(application);
  }

  /**
   * Notes why an application does not work, that another machine serves it, or that nothing stands in its way.
   * @returns whether it is another status: retries that end the same way are not told again
   */
  set(application: string, reasons: readonly string[], plan: Pick<ForwardingPlan, 'addresses' | 'elsewhere'>): boolean {
    const before = this.#statuses.get(application);
    const { elsewhere = [] } = plan;
    const isOthers = reasons.length === 0 && isElsewhere(plan);
    const others = `another machine serves ${joinReasons(elsewhere, mostTold, ', ')} (proxy.servedAddresses)`;
    const reason = isOthers ? others : reasons.join('; ');
    const state = isOthers ? 'pending' : reason === '' ? 'active' : 'failed';
    this.#statuses.set(application, { state, reason });
    return before?.state !== state || before.reason !== reason;
  }

  /** Forgets an application that is gone. */
  delete(application: string): void {
    this.#statuses.delete(application);
  }

  /** Writes the statuses of applications into the log. @param boundOf where an application's sockets are bound */
  tell(applications: readonly string[], boundOf: (application: string) => readonly string[]): void {
    for (const application of applications) {
      const status = this.#statuses.get(application);
      if (!status) continue;
      const { state, reason } = status;
      const listening = joinReasons(boundOf(application), mostTold, ', ');
      if (state === 'active') this.#log.info({ application, listening }, 'proxy application is active');
      else if (state === 'pending') this.#log.info({ application, reason }, 'proxy application is served elsewhere');
      else this.#log.warn({ application, reason, listening }, 'proxy application has failed');
    }
  }
}

// How the proxy applications are, asked of the process that carries them: this one, or another of the same server (D84).

import { within } from '../../base/load/maybe-promise.ts';
import type { CarrierAnswer, CarrierQuestion } from '../../base/process-group.ts';
import type { ApplicationStatus } from '../application/application.ts';
import type { DataPlane } from './data-plane.ts';

/** How an application is. */
export interface ApplicationView {
  readonly status: ApplicationStatus;
  /** Absent where it was not asked for, or the data plane has not seen the application. */
  readonly traffic?: ReturnType<DataPlane['traffic']>;
}

/** Asks how applications are. What gives no answer in time is `pending`. */
export type SeeApplications = (question: CarrierQuestion) => Promise<(application: string) => ApplicationView>;

/** What the views are made from. */
export interface ApplicationViewsParts {
  readonly dataPlane: Pick<DataPlane, 'reconcile' | 'status' | 'traffic' | 'reports'>;
  readonly isCarrier: () => boolean;
  /** Asks the process that does; absent where there is one process alone. */
  readonly askCarrier?: ((question: CarrierQuestion) => Promise<CarrierAnswer | undefined>) | undefined;
}

/** How long an answer waits for the listeners, so that its status is true, in milliseconds. */
const settleMs = 5000;
/** How long an answer waits for another process, in milliseconds. */
const answerMs = 2000;

const noAnswer: ApplicationView = {
  status: { state: 'pending', reason: 'the process that carries it has given no answer' },
};

interface Told extends ApplicationView {
  readonly id: string;
}

/** Makes `see`, and `tell`, which answers what another process asks of this one. */
export function createApplicationViews({ dataPlane, isCarrier, askCarrier }: ApplicationViewsParts) {
  async function tell({ ids, traffic, follows = false }: CarrierQuestion): Promise<readonly Told[]> {
    if (follows) await within(settleMs, dataPlane.reconcile());
    return (ids ?? dataPlane.reports().map(({ plan }) => plan.id)).map((id) => {
      const status = dataPlane.status(id);
      const seen = traffic && dataPlane.traffic(id);
      if (!seen) return { id, status };
      return { id, status, traffic: traffic === 'all' ? seen : { ...seen, events: [], origins: [] } };
    });
  }

  async function ask(question: CarrierQuestion): Promise<readonly Told[]> {
    if (!askCarrier || isCarrier()) return await tell(question);
    // Following by itself, this process would listen beside the carrier. A supervisor that is gone throws: this process ends, too.
    const asked = askCarrier(question).catch(() => undefined);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the other process answers with what `tell` has made
    return ((await within(question.follows ? settleMs : answerMs, asked)) ?? []) as readonly Told[];
  }

  const see: SeeApplications = async (question) => {
    const told = new Map((await ask(question)).map((view) => [view.id, view]));
    return (application) => told.get(application) ?? noAnswer;
  };
  return { tell, see };
}

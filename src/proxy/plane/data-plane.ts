// The data plane of proxy applications: a reconciler that keeps the listeners equal to the stored plans (D84).

import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { errorMessage } from '../../base/errors.ts';
import { onceAndAgain } from '../../base/load/once-at-a-time.ts';
import { isLocalAddress } from '../../base/net/own-doors.ts';
import type { ApplicationStatus, ForwardingPlan, Traffic, TransportProtocol } from '../application/application.ts';
import { wildcardIp } from '../application/texts.ts';
import { createOriginGuard } from '../origins/origins.ts';
import type { PortListener, ProxyListenerParts } from '../traffic/listener.ts';
import { createCertificates, expiryOf, openTcpListener } from '../traffic/tcp-listener.ts';
import { openUdpListener } from '../traffic/udp-listener.ts';
import { type DataPlaneParts, interfaceAddresses, openBounds } from './data-plane-parts.ts';
import {
  createListenPlanner,
  explainFailures,
  listenerKey,
  OpenSockets,
  type WantedListener,
} from './listening-sockets.ts';
import {
  type ApplicationState,
  createApplicationState,
  cutConnections,
  isElsewhere,
  logStatus,
  RetiredPlans,
  statusOf,
} from './running-applications.ts';

const defaultRenewMs = 60_000;
const defaultRetry = { firstMs: 1000, longestMs: 30_000 };
/** How long a listener may take to close after all of its connections were cut. */
const cutGraceMs = 1000;

/** The listeners and connections of all applications; it listens nowhere before the first reconcile(). */
export class DataPlane {
  readonly #parts: DataPlaneParts;
  readonly #listenerParts: ProxyListenerParts;
  #ipv6Addresses: readonly string[];
  readonly #bounds;
  readonly #certificates;
  readonly #planListeners = createListenPlanner();
  readonly #applications = new Map<string, ApplicationState>();
  readonly #sockets: OpenSockets;
  readonly #retired = new RetiredPlans();
  #retryTimer: NodeJS.Timeout | undefined;
  readonly #renewTimer: NodeJS.Timeout;
  #renewalFaults: ReadonlyMap<string, string> = new Map();
  #failuresInRow = 0;
  #drained: Promise<void> | undefined;

  constructor(parts: DataPlaneParts) {
    this.#parts = parts;
    this.#ipv6Addresses = (parts.ipv6Addresses ?? interfaceAddresses)();
    this.#bounds = openBounds(parts);
    this.#certificates = createCertificates(parts.certificate);
    this.#sockets = new OpenSockets((wanted) => this.#open(wanted), parts.log);
    this.#renewTimer = setInterval(() => this.#lookAround(), parts.renewMs ?? defaultRenewMs);
    this.#renewTimer.unref();
    this.#listenerParts = {
      limits: parts.limitsOf,
      budget: this.#bounds.budget,
      clock: parts.clock,
      log: parts.log,
      refuseOrigin: createOriginGuard({
        settings: () => parts.now().settings,
        ownDoors: () => parts.ownDoors?.() ?? [],
        listenerAt: (transport, address, port) => this.#listenerAt(transport, address, port),
      }),
      certificate: this.#certificates.get,
    };
  }

  /**
   * Makes listeners equal to the plans of the store: opens, changes, closes. Resolves when every application that
   * changed has its status. A call during a run may come after a write that the run has not read: all such calls share the next one.
   * They never throw: a failure is a status, and is tried again.
   */
  readonly reconcile = onceAndAgain(() => this.#once());

  /** `pending` for an application that it has not seen. */
  status(application: string): ApplicationStatus {
    const status = this.#applications.get(application)?.status();
    if (!status) return { state: 'pending', reason: 'its listeners are not open yet' };
    const at = this.#certificateEnd(application);
    return at === undefined ? status : { ...status, certificateExpiresAt: at };
  }

  /** What the metrics tell of each application; `origins`: those known now, and of them those whose last connection failed. */
  reports() {
    return [...this.#applications].map(([id, state]) => {
      const { plan, traffic, origins } = state.current();
      const health = origins.health();
      const failing = health.filter(({ healthy }) => !healthy).length;
      const { datagramsDropped } = traffic;
      return { plan, status: this.status(id), origins: { known: health.length, failing }, datagramsDropped };
    });
  }

  #certificateEnd(application: string): number | undefined {
    const plan = this.#applications.get(application)?.current().plan;
    if (!plan || plan.tls === 'off' || plan.transport !== 'tcp') return undefined;
    const certificate = this.#certificates.get(plan.name);
    return certificate && expiryOf(certificate);
  }

  /**
   * Counters, the latest events, the newest first, its sockets after the offset (`127.0.0.1:20022`, `[::1]:21000-22000`) and its
   * origins; undefined for an application that it has not seen.
   */
  traffic(application: string) {
    const state = this.#applications.get(application);
    if (!state) return undefined;
    const { traffic, origins } = state.current();
    return {
      counters: { ...traffic },
      events: state.events(),
      listening: this.#sockets.of(application),
      origins: origins.health(),
    };
  }

  totals(): ReadonlyMap<string, Traffic> {
    return new Map([...this.#applications].map(([id, state]) => [id, { ...state.current().traffic }]));
  }

  /** What all applications together have open, beside what they may have. */
  open() {
    const { budget, maxListeners } = this.#bounds;
    return { ...budget.counts(), listeners: this.#sockets.count(), maxListeners };
  }

  /** Stops listening, lets connections finish, and cuts what is left after so many milliseconds. */
  drain(withinMs: number): Promise<void> {
    // It begins once this is set: from then on no run opens anything.
    this.#drained ??= Promise.resolve().then(() => this.#drain(withinMs));
    return this.#drained;
  }

  async #once(): Promise<void> {
    clearTimeout(this.#retryTimer);
    if (this.#drained) return;
    let isComplete = false;
    try {
      isComplete = await this.#apply(await this.#parts.plans());
    } catch (error) {
      this.#parts.log.error({ error: errorMessage(error) }, 'the proxy applications could not be applied');
    }
    if (isComplete) this.#failuresInRow = 0;
    else this.#retryLater();
  }

  /** Makes the listeners equal to the plans. @returns false where something failed that may succeed later */
  async #apply(plans: readonly ForwardingPlan[]): Promise<boolean> {
    const secured = plans.filter((plan) => plan.transport === 'tcp' && plan.tls !== 'off' && !isElsewhere(plan));
    const reasonByName = this.#certificates.follow(new Set(secured.map(({ name }) => name)));
    const uncertified = new Map<string, string>();
    for (const { id, name } of reasonByName.size === 0 ? [] : secured) {
      const reason = reasonByName.get(name);
      if (reason !== undefined) uncertified.set(id, reason);
    }
    const { settings, drainMs } = this.#parts.now();
    const { wanted, problems } = this.#planListeners(
      plans.filter(({ id }) => !uncertified.has(id)),
      {
        portOffset: settings.portOffset,
        maxListeners: this.#bounds.maxListeners,
        maxPerAccount: this.#bounds.maxListenersPerAccount,
        ipv6Addresses: this.#ipv6Addresses,
        ownPorts: new Set(this.#parts.ownDoors?.().map(({ port }) => port)),
      },
    );
    // Close before open: a port may go from one application to another in one step.
    this.#sockets.closeUnwanted(wanted, drainMs);
    this.#followPlans(plans, drainMs);
    await setImmediate();
    const { failures, opened } = await this.#sockets.openMissing(wanted, () => this.#drained !== undefined);
    let boundOf: ReturnType<OpenSockets['ofAll']> | undefined;
    for (const plan of plans) {
      const { id } = plan;
      const unread = uncertified.get(id);
      const reasons = unread === undefined ? (problems.get(id) ?? []) : [unread];
      const status = statusOf([...reasons, ...explainFailures(failures.get(id) ?? [])], plan);
      const isChanged = this.#applications.get(id)?.settle(status) === true;
      if (!isChanged && !opened.has(id)) continue;
      boundOf ??= this.#sockets.ofAll();
      logStatus(this.#parts.log, id, status, boundOf(id));
    }
    return failures.size === 0 && uncertified.size === 0;
  }

  /** The application that takes what comes to an address of this machine. */
  #listenerAt(transport: TransportProtocol, address: string, port: number): string | undefined {
    const own = this.#sockets.at(listenerKey(transport, address, port));
    if (own !== undefined || !address.includes(':')) return own;
    const ofAll = this.#sockets.at(listenerKey(transport, wildcardIp, port));
    return ofAll !== undefined && isLocalAddress(address) ? ofAll : undefined;
  }

  /** Looks for changes that no event tells of: renewed certificates, and addresses that come and go. */
  #lookAround(): void {
    this.renewCertificates();
    const addresses = (this.#parts.ipv6Addresses ?? interfaceAddresses)();
    if (addresses.join(' ') === this.#ipv6Addresses.join(' ')) return;
    this.#ipv6Addresses = addresses;
    // reconcile() never rejects.
    void this.reconcile();
  }

  /** Looks now whether certificates in use were renewed. New connections get a renewed certificate; one that cannot be used is told once. */
  renewCertificates(): void {
    const faults = this.#certificates.renew();
    for (const [name, reason] of faults) {
      if (this.#renewalFaults.get(name) === reason) continue;
      this.#parts.log.warn({ name, reason }, 'the certificate before is used on');
    }
    this.#renewalFaults = faults;
  }

  #followPlans(plans: readonly ForwardingPlan[], drainMs: number): void {
    const ids = new Set(plans.map(({ id }) => id));
    for (const [id, state] of this.#applications) {
      if (ids.has(id)) continue;
      this.#retired.add(state.current(), drainMs);
      this.#applications.delete(id);
    }
    for (const plan of plans) {
      const known = this.#applications.get(plan.id);
      if (known) known.follow(plan, (before) => this.#retired.add(before, drainMs));
      else this.#applications.set(plan.id, createApplicationState(plan, this.#parts));
    }
  }

  async #open({ transport, at, application }: WantedListener): Promise<PortListener | undefined> {
    const state = this.#applications.get(application);
    if (!state) return undefined;
    const { budget } = this.#bounds;
    while (!budget.hasRoom(1) && budget.evict('all'));
    if (!budget.hasRoom(1)) throw Object.assign(new Error('no descriptor is left'), { code: 'EMFILE' });
    const giveBack = budget.take(1);
    const openListener = transport === 'tcp' ? openTcpListener : openUdpListener;
    try {
      const listener = await openListener(at, state.current, this.#listenerParts);
      return {
        at,
        close(drainMs) {
          giveBack();
          return listener.close(drainMs);
        },
      };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  #retryLater(): void {
    const { firstMs, longestMs } = this.#parts.retry ?? defaultRetry;
    const waitMs = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failuresInRow, 20));
    this.#failuresInRow += 1;
    // reconcile() never rejects.
    this.#retryTimer = setTimeout(() => void this.reconcile(), waitMs);
    this.#retryTimer.unref();
  }

  async #drain(withinMs: number): Promise<void> {
    const until = performance.now() + withinMs;
    clearInterval(this.#renewTimer);
    // The run under way ends; the one behind it only stops the timer.
    await this.reconcile();
    const leftMs = Math.max(0, until - performance.now());
    this.#sockets.closeUnwanted(new Map(), leftMs);
    const timer = setTimeout(() => {
      this.#retired.cutAll();
      for (const state of this.#applications.values()) cutConnections(state.current());
    }, leftMs);
    await Promise.race([this.#sockets.closed(), sleep(leftMs + cutGraceMs, undefined, { ref: false })]);
    clearTimeout(timer);
  }
}

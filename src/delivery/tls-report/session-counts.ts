// Counts attempts in memory, and in the database every few seconds: an attempt waits for no disk. A crash loses some.

import type { Clock } from '../../base/clock.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import type { TlsResult } from '../mx/tls-demand.ts';
import { dayOf, endOfDay, kindOf, type SessionKind } from './session-kind.ts';
import type { DueTimes, TlsReportStore } from './tls-report-store.ts';

/** What counting needs. */
interface SessionCountsParts {
  readonly store: Pick<TlsReportStore, 'add' | 'isFull'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number from 0 up to, not including, 1. */
  readonly random: () => number;
  /** Kinds in memory; absent: 10,000. */
  readonly mostKinds?: number;
  /** A report is sent at a random moment up to so many minutes after the end of its day; absent: four hours. */
  readonly delayMinutes?: number;
}

/** Rows of one transaction. */
const atOnce = 200;
/** Counts of a day's last seconds come to the database a little later. */
const graceMs = 60_000;
/** RFC 8460 §5.5: a report is tried for a day. */
const triedMs = 86_400_000;

/** Counts attempts. */
export class SessionCounts extends Part<SessionCountsParts> {
  #kinds = new Map<string, { readonly kind: SessionKind; sessions: number }>();
  /** Adds what was counted to the database. Never rejects: what could not be kept is tried again by the next call. */
  readonly flush = onceAtATime(() => this.#flush());
  /** Attempts that are in no report, because there were too many kinds of them. */
  lost = 0;

  count(result: TlsResult): void {
    this.#count(kindOf(result, this.parts.clock.now()), 1);
  }

  #count(kind: SessionKind, sessions: number): void {
    const { day, domain, policyId, result, exchanger, address, localAddress } = kind;
    const key = JSON.stringify([day, domain, policyId, result, exchanger, address, localAddress]);
    const known = this.#kinds.get(key);
    if (known) known.sessions += sessions;
    else if (this.#kinds.size < (this.parts.mostKinds ?? 10_000)) this.#kinds.set(key, { kind, sessions });
    else this.lost += sessions;
  }

  async #flush(): Promise<void> {
    if (this.#kinds.size === 0) return;
    const { store, log } = this.parts;
    const counted = [...this.#kinds.values()];
    this.#kinds = new Map();
    let kept = 0;
    try {
      if (await store.isFull()) {
        for (const { sessions } of counted) this.lost += sessions;
        return log.warn({ kinds: counted.length }, 'results of TLS not kept: too many wait to be reported');
      }
      for (; kept < counted.length; kept += atOnce) {
        await store.add(counted.slice(kept, kept + atOnce), (day) => this.#timesOf(day));
      }
    } catch (error) {
      for (const { kind, sessions } of counted.slice(kept)) this.#count(kind, sessions);
      log.error({ err: error }, 'results of TLS could not be kept');
    }
  }

  /** RFC 8460 §4.1: some time after the end of the day, so that not all reports arrive at the same moment. */
  #timesOf(day: string): DueTimes {
    const { delayMinutes = 240, random, clock } = this.parts;
    const delay = graceMs + Math.floor(random() * delayMinutes * 60_000);
    // Where counts of an earlier day come late, their report begins now.
    const dueAt = (day === dayOf(clock.now()) ? endOfDay(day) : Math.max(endOfDay(day), clock.now())) + delay;
    return { dueAt, giveUpAt: dueAt + triedMs };
  }
}

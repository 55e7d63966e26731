// Holds: rules of the operator by which mail waits. What falls under one is accepted and kept, but not claimed.

import { splitMailbox } from '../mail/address/domain.ts';

/** The kinds of holds. */
export const holdKinds = ['message', 'account', 'destination', 'route', 'line'] as const;

/** What a hold is for: a message (id), an account, a recipient domain (A-label), a route, or an account's line for a place (`lineOf`). */
export type HoldKind = (typeof holdKinds)[number];

/** A rule of the operator. */
export interface HoldRule {
  readonly kind: HoldKind;
  readonly value: string;
  /** When it was made, milliseconds since 1970. */
  readonly at: number;
  /** Who made it. */
  readonly by: string;
  /** Why; '' where nothing was said. */
  readonly why: string;
}

/** A rule that is kept, with the number that the store gave it. */
export interface Hold extends HoldRule {
  readonly id: number;
}

/** Holds that a store keeps at most: each claim asks all of them. */
export const mostHolds = 1000;

/** @throws Error where there are so many holds that a further one is not made */
export function requireRoom(holds: readonly Hold[], { kind, value }: HoldRule): void {
  if (holds.length >= mostHolds && !holds.some((hold) => hold.kind === kind && hold.value === value))
    throw new Error(`There are ${mostHolds} holds, which is the most that are kept; lift others first`);
}

/** The route of a transport's name: `ROUTE#digest` or `ROUTE#digest/DOMAIN`. */
export function routeOfTransport(transport: string): string {
  return transport.split('#')[0] ?? '';
}

/** The domain in a transport's name; undefined where mail of all domains waits together. */
export function domainOfTransport(transport: string): string | undefined {
  const slash = transport.indexOf('/');
  return slash === -1 ? undefined : transport.slice(slash + 1);
}

/** Names what an account has waiting for a transport, whatever settings its route has: `ACCOUNT ROUTE` or `ACCOUNT ROUTE/DOMAIN`. */
export function lineOf({ account, transport }: { readonly account: string; readonly transport: string }): string {
  const domain = domainOfTransport(transport);
  return `${account} ${routeOfTransport(transport)}${domain === undefined ? '' : `/${domain}`}`;
}

/** A transport's name without the domain. */
export function stemOfTransport(transport: string): string {
  return transport.split('/')[0] ?? '';
}

/** The holds, ready to be asked about mail. Each question costs the same however many holds there are. */
export class Holds {
  readonly all: readonly Hold[];
  readonly #byKey: ReadonlyMap<string, Hold>;
  /** There is one for a message or a domain, so that recipients must be looked at one by one. */
  readonly hasPicked: boolean;

  constructor(all: readonly Hold[] = []) {
    this.all = all;
    this.#byKey = new Map(all.map((hold) => [`${hold.kind} ${hold.value}`, hold]));
    this.hasPicked = all.some(({ kind }) => kind === 'message' || kind === 'destination');
  }

  get isEmpty(): boolean {
    return this.all.length === 0;
  }

  /** The hold on everything of an account that waits for a transport. */
  ofLine(line: { readonly transport: string; readonly account: string }): Hold | undefined {
    if (this.isEmpty) return undefined;
    const { transport, account } = line;
    const domain = domainOfTransport(transport);
    return (
      this.#byKey.get(`line ${lineOf(line)}`) ??
      this.#byKey.get(`account ${account}`) ??
      this.#byKey.get(`route ${routeOfTransport(transport)}`) ??
      (domain === undefined ? undefined : this.#byKey.get(`destination ${domain}`))
    );
  }

  /** The hold on one recipient of a message, whatever it waits for. */
  ofRecipient({ id, address }: { readonly id: string; readonly address: string }): Hold | undefined {
    if (!this.hasPicked) return undefined;
    return (
      this.#byKey.get(`message ${id}`) ??
      this.#byKey.get(`destination ${splitMailbox(address).domain?.toLowerCase() ?? ''}`)
    );
  }
}

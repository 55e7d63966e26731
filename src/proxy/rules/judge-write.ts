// Judges a write of a proxy application: drills, its application, fields, facts, rules (D80-D83); again where another came between (D87).

import type { Clock } from '../../base/clock.ts';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { Logger } from '../../base/log.ts';
import { type Fault, Refusal } from '../../web/http/envelope.ts';
import type { ApplicationFields, StoredApplication } from '../application/application.ts';
import { got } from '../application/texts.ts';
import {
  type CallerRights,
  type ProxyOwners,
  type ProxyZone,
  placesOf,
  type ZoneAndOwner,
} from '../application/zone.ts';
import type { ApplicationStore } from '../store/application-store.ts';
import type { Claims } from '../store/application-writing.ts';
import type { FactSources, Facts } from './facts.ts';
import { fieldNames, mergePatch } from './read-addresses.ts';
import { completeFields, type Judged, readApplication } from './read-application.ts';
import { conflictFaults, faultsOf, internalFault, malformed } from './rules.ts';

/** A write that is asked for. */
export interface AskedWrite extends ZoneAndOwner {
  readonly kind: 'create' | 'replace' | 'patch';
  /** Any JSON value. */
  readonly body: unknown;
  readonly rights: CallerRights;
  /** Of the application, 32 hex; of a new one for `create`. */
  readonly id: string;
  /** Names the request in 10002 (D83). */
  readonly rayId: string;
  /** Looks the application up, after the drills; absent for create. What it throws as a Refusal is passed on. */
  readonly find?: () => Promise<StoredApplication>;
}

/** The sources that judging needs. */
export interface JudgeSources extends FactSources {
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

interface Refused {
  readonly ok: false;
  readonly faults: readonly Fault[];
}

/** The verdict. */
export type JudgedWrite =
  | Refused
  | {
      readonly ok: true;
      readonly fields: ApplicationFields;
      readonly claims: Claims;
      readonly stored: StoredApplication | undefined;
    };

/** A source of facts did not answer: 503 where nothing else is to tell (D83). */
class SourceFailure extends Error {
  override readonly name = 'SourceFailure';
}

async function askSource<Found>(source: string, ask: () => Promise<Found>): Promise<Found> {
  try {
    return await ask();
  } catch (cause) {
    throw new SourceFailure(`${source} did not answer: ${errorMessage(cause)}`, { cause });
  }
}

function claimsOf({ application, account, zone }: Judged, ipv4Pool: string): Claims | undefined {
  const { protocol, edge } = application;
  if (!protocol || !edge) return undefined;
  return {
    transport: protocol.transport,
    ports: protocol.ports,
    ...(account.plan === 'payg' ? { soleProtocol: protocol.canonical } : {}),
    edge,
    ipv4Quota: zone.ipv4Quota,
    ipv4Pool,
  };
}

function sentNames(body: UnknownRecord): readonly string[] {
  return Object.keys(body).filter((name) => body[name] !== null);
}

/** D80: one form of origin removes the stored other, origin_dns with its origin_port. Both in one body are left for 11000. */
function replacedFields(sent: ReadonlySet<string>, stored: ApplicationFields): readonly string[] {
  const isDirect = sent.has('origin_direct');
  if (isDirect === sent.has('origin_dns')) return [];
  if (!isDirect) return ['origin_direct'];
  return stored.origin_dns && !sent.has('origin_port') ? ['origin_dns', 'origin_port'] : ['origin_dns'];
}

/** The application that a write would lead to, as JSON (D80). */
function resultOf({ kind }: AskedWrite, body: UnknownRecord, stored: StoredApplication | undefined): UnknownRecord {
  if (kind !== 'patch' || !stored) return body;
  const replaced = replacedFields(new Set(sentNames(body)), stored.fields);
  const kept = Object.entries(stored.fields).filter(([name]) => !replaced.includes(name));
  return mergePatch(Object.fromEntries(kept), body, fieldNames);
}

async function judgeStored(write: AskedWrite, body: UnknownRecord, sources: JudgeSources): Promise<JudgedWrite> {
  const { zone, account, rights, rayId } = write;
  const stored = await write.find?.();
  const application = readApplication(resultOf(write, body, stored));
  const judged: Judged = { application, sentNames: sentNames(body), zone, account, rights, stored };
  let facts: Facts;
  try {
    const asked = [askSource('dns', () => sources.dns(judged)), askSource('ipam', () => sources.ipam(judged))] as const;
    const [dns, ipam] = await Promise.all(asked);
    facts = { dns, ipam };
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error;
    sources.log.error({ err: error, ray: rayId, zone: zone.id }, 'a source of facts failed');
    return withoutFacts(judged, rayId);
  }
  const faults = faultsOf(judged, facts);
  if (faults.length > 0) return { ok: false, faults };
  const fields = completeFields(application);
  const claims = claimsOf(judged, facts.ipam.ipv4Pool);
  if (!fields || !claims) throw new Error('An application without faults lacks fields');
  return { ok: true, fields, claims, stored };
}

/** The verdict without facts. D83: faults that need no fact are told; where there are none, 10002 alone. */
function withoutFacts(judged: Judged, rayId: string): Refused {
  const faults = faultsOf(judged, undefined);
  return { ok: false, faults: faults.length > 0 ? faults : [internalFault(503, rayId)] };
}

async function judge(write: AskedWrite, sources: JudgeSources): Promise<JudgedWrite> {
  const { kind, body, zone, account, rights, rayId } = write;
  const { drill } = zone;
  if (drill)
    sources.log.warn({ ray: rayId, zone: zone.id, drill }, 'drill: the write is answered as if a part had failed');
  if (drill === 'internal') return { ok: false, faults: [internalFault(500, rayId)] };
  if (!isRecord(body)) {
    const text = `The body must be a JSON object; got ${got(body)}`;
    return { ok: false, faults: [malformed({ text, pointer: '' })] };
  }
  if (!drill) return judgeStored(write, body, sources);
  // D83: before the application is looked up. Of a PATCH only what is sent is known; what it leaves out is not missing.
  const application = readApplication(body, kind === 'patch');
  return withoutFacts({ application, sentNames: sentNames(body), zone, account, rights, stored: undefined }, rayId);
}

/** Judges a write. @returns the fields to store and claims, or all faults in order; unexpected ones are 10002 @throws Refusal of `find` */
export async function judgeWrite(write: AskedWrite, sources: JudgeSources): Promise<JudgedWrite> {
  try {
    return await judge(write, sources);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    sources.log.error({ err: error, ray: write.rayId, zone: write.zone.id }, 'judging an application failed');
    return { ok: false, faults: [internalFault(500, write.rayId)] };
  }
}

/** What a write needs. */
export interface WriteParts {
  readonly store: ApplicationStore;
  readonly sources: JudgeSources;
  readonly clock: Clock;
}

/** How often an application may change under a write's hands: only other processes can do it. */
const mostTries = 20;

/** Judges and writes. @throws Refusal of `find`; Error where the store fails, or others change the application without end */
export async function writeApplication(
  write: AskedWrite,
  { store, sources, clock }: WriteParts,
): Promise<Refused | { readonly ok: true; readonly application: StoredApplication }> {
  const { id, zone, account, kind } = write;
  for (let tries = 0; tries < mostTries; tries += 1) {
    const judged = await judgeWrite(write, sources);
    if (!judged.ok) return judged;
    const { fields, claims, stored } = judged;
    const entry = { id, zone: zone.id, account: account.id, fields, claims, now: clock.now() };
    const written = kind === 'create' ? await store.create(entry) : await store.replace(entry, stored?.modifiedAt);
    // It was changed or removed since it was judged.
    if (!written || 'changed' in written) continue;
    if (written.ok) return written;
    return { ok: false, faults: conflictFaults(written.conflict, { fields, zone, account }) };
  }
  throw new Error(`Application ${id} was changed ${mostTries} times while one change of it was judged`);
}

/** The write of a configured application (D99), without drills; its author may use every prefix of the account. */
export function configuredWrite(
  { id, ...body }: NonNullable<ProxyZone['applications']>[number],
  place: ZoneAndOwner,
): AskedWrite {
  const { drill: _, ...zone } = place.zone;
  const { account } = place;
  const rights = { readsPrefixes: true };
  return { kind: 'create', body, zone, account, rights, id: id.toLowerCase(), rayId: `configuration ${id}` };
}

/** The applications of a configuration, as writes, with their places. */
function seedsOf(owners: ProxyOwners) {
  const places = placesOf(owners);
  return owners.zones.flatMap(({ id, applications = [] }, at) => {
    const place = places.get(id);
    if (!place) return [];
    return applications.map((entry, index) => {
      return { write: configuredWrite(entry, place), path: `zones[${at}].applications[${index}]` };
    });
  });
}

function lineOf(fault: Fault, path: string): string {
  const place = (fault.pointer ?? '').replace(/\/([^/]*)/g, (_, step) =>
    /^\d+$/.test(step) ? `[${step}]` : `.${step}`,
  );
  return `${path}${place}: ${'number' in fault ? `${fault.number} ` : ''}${fault.message}`;
}

/**
 * Writes the configured applications (D99) that the store lacks. @returns their ids @throws ConfigurationError with its faults
 * @param parts `file` names the configuration in errors
 */
export async function seedApplications(
  parts: WriteParts & ProxyOwners & { readonly file: string },
): Promise<readonly string[]> {
  const known = new Set((await parts.store.all()).map(({ id }) => id));
  const written: string[] = [];
  const lines: string[] = [];
  for (const { write, path } of seedsOf(parts)) {
    const { id, zone } = write;
    if (known.has(id)) continue;
    const end = await writeApplication(write, parts).catch((cause: unknown) => ({ ok: false, cause }) as const);
    if (end.ok) written.push(id);
    // A process that started at the same time may have been faster.
    if (end.ok || (await parts.store.get(zone.id, id))) continue;
    if ('cause' in end) throw new Error(`${path} of ${parts.file} could not be written`, { cause: end.cause });
    // 10002 says that something failed, not that the application is wrong.
    if (end.faults.some((fault) => 'number' in fault && fault.number === 10_002))
      throw new Error(`${path} of ${parts.file} could not be judged`);
    for (const fault of end.faults) lines.push(`${parts.file}: ${lineOf(fault, path)}`);
  }
  if (lines.length > 0) throw new ConfigurationError(lines.join('\n'));
  return written;
}

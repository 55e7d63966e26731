// Judges a create, replace or patch of a proxy application: drills, the application it is about, the merged fields, the
// facts, the rules, in this order (D80-D83).

import { errorMessage } from '../../base/errors.ts';
import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { Logger } from '../../base/log.ts';
import type { Fault } from '../../web/http/envelope.ts';
import type { ApplicationFields, StoredApplication } from '../application/application.ts';
import { got } from '../application/quote.ts';
import type { CallerRights, ProxyZone, ZoneAndOwner } from '../application/zone.ts';
import type { Claims } from '../store/store.ts';
import type { FactSources, Facts } from './facts.ts';
import { completeFields, type Judged, readApplication } from './read-application.ts';
import { fieldNames, mergePatch } from './reading.ts';
import { faultsOf, internalFault, malformed } from './rules.ts';

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
  /** Looks the application up; for replace and patch, after the drills. Not called for create. */
  readonly find: () => Promise<StoredApplication | undefined>;
}

/** The sources that judging needs. */
export interface JudgeSources extends FactSources {
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

/** The verdict. */
export type JudgedWrite =
  | {
      readonly ok: true;
      readonly fields: ApplicationFields;
      readonly claims: Claims;
      /** The application before, for replace and patch. */
      readonly stored?: StoredApplication;
    }
  | { readonly ok: false; readonly faults: readonly Fault[] }
  | { readonly ok: false; readonly notFound: true };

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

async function gatherFacts(judged: Judged, sources: JudgeSources): Promise<Facts> {
  const [dns, ipam] = await Promise.all([
    askSource('dns', () => sources.dns(judged)),
    askSource('ipam', () => sources.ipam(judged)),
  ]);
  return { dns, ipam };
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

/**
 * D80: giving one form of origin removes the stored other one, and origin_dns takes its origin_port along, which means
 * nothing without it. Both forms in one body are left for 11000.
 */
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
  const stored = write.kind === 'create' ? undefined : await write.find();
  if (write.kind !== 'create' && !stored) return { ok: false, notFound: true };
  const application = readApplication(resultOf(write, body, stored));
  const judged: Judged = { application, sentNames: sentNames(body), zone, account, rights, stored };
  let facts: Facts;
  try {
    facts = await gatherFacts(judged, sources);
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
  return { ok: true, fields, claims, ...(stored ? { stored } : {}) };
}

/** The verdict without facts. D83: faults that need no fact are told; where there are none, 10002 alone. */
function withoutFacts(judged: Judged, rayId: string): JudgedWrite {
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

/**
 * Judges a write.
 * @returns the fields to store with what they claim; or all that is wrong, in the order of the answer; or that there is no
 *   such application. Never throws: what fails unexpectedly is logged, and is 10002 with 500, a source's failure with 503
 */
export async function judgeWrite(write: AskedWrite, sources: JudgeSources): Promise<JudgedWrite> {
  try {
    return await judge(write, sources);
  } catch (error) {
    sources.log.error({ err: error, ray: write.rayId, zone: write.zone.id }, 'judging an application failed');
    return { ok: false, faults: [internalFault(500, write.rayId)] };
  }
}

/**
 * Judges an application of the configuration (`applications` of a zone, D99) by the same rules. Drills are for callers of
 * the API and left out; the configuration's author may use every prefix of the account.
 * @param application the entry as the zone has it, with its id
 */
export function judgeConfigured(
  application: NonNullable<ProxyZone['applications']>[number],
  of: ZoneAndOwner,
  sources: JudgeSources,
): Promise<JudgedWrite> {
  const { id, ...body } = application;
  const { drill: _, ...zone } = of.zone;
  return judgeWrite(
    {
      kind: 'create',
      body,
      zone,
      account: of.account,
      rights: { readsPrefixes: true },
      id,
      rayId: `configuration ${id}`,
      find: async () => undefined,
    },
    sources,
  );
}

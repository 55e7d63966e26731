// /zones/{zone_id}/proxy: the proxy-application API (D80, D81, D85), and what all applications of an account carry.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { randomHex } from '../../base/ids.ts';
import { member } from '../../base/is-record.ts';
import { createRestingQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import {
  type AskedOf,
  changed,
  changedCode,
  type EndpointTarget,
  endpoint,
  endpointsOf,
  judgeVersion,
  namesVersion,
  showVersion,
} from '../../web/http/endpoint.ts';
import { Refusal, refusal, succeed } from '../../web/http/envelope.ts';
import { type DocumentedCode, submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import { type ApplicationStatus, newApplication, type StoredApplication } from '../application/application.ts';
import { got, parseProtocol } from '../application/texts.ts';
import { type ProxyOwners, type ProxyZone, placesOf, type ZoneAndOwner } from '../application/zone.ts';
import type { SeeApplications } from '../plane/application-views.ts';
import { type AskedWrite, type WriteParts, writeApplication } from '../rules/judge-write.ts';
import type { ApplicationQuery } from '../store/application-tables.ts';
import * as schema from './application-schema.ts';

/** What the endpoints work on. */
interface ApplicationEndpointsParts extends WriteParts, ProxyOwners {
  /** How the applications are, asked of the process that carries them. */
  readonly see: SeeApplications;
  /** Edge ports that the gateway itself has, the offset taken away (D84). */
  readonly ownPorts: () => readonly number[];
  /** Codes and statuses that a write may be refused with, for the OpenAPI document. */
  readonly codes: readonly DocumentedCode[];
  readonly log: Logger;
}

/** A body holds one application: 64 KiB. */
const bodyBytes = 65_536;

function unknownApplication(): Refusal {
  return refusal('E_NOT_FOUND', 'There is no such application in this zone');
}

async function filterOf(
  query: { readonly dns?: string; readonly protocol?: string; readonly status?: ApplicationStatus['state'] },
  see: SeeApplications,
): Promise<Pick<ApplicationQuery, 'hostname' | 'protocol' | 'accepts'>> {
  const { dns, protocol: text, status } = query;
  const protocol = text === undefined ? undefined : parseProtocol(text);
  if (text !== undefined && !protocol) {
    const message = `"protocol" must be like "tcp/22", "udp/53", "tcp/1000-2000" or "ftp"; got ${got(text)}`;
    throw refusal('E_VALIDATION_ERROR', message);
  }
  const viewOf = status === undefined ? undefined : await see({});
  return { hostname: dns, protocol, accepts: viewOf && ((id) => viewOf(id).status.state === status) };
}

class Zones {
  readonly parts: ApplicationEndpointsParts;
  readonly #places: ReadonlyMap<string, ZoneAndOwner>;

  constructor(parts: ApplicationEndpointsParts) {
    this.parts = parts;
    this.#places = placesOf(parts);
  }

  /** Finds the zone of a path; authorization has seen to it that it is the caller's. */
  placeOf(request: FastifyRequest): ZoneAndOwner {
    const id = String(member(request.params, 'zone_id'));
    const place = this.#places.get(id.toLowerCase());
    if (!place) throw new Error(`Zone ${id} was authorized and is not there`);
    return place;
  }

  async show(applications: readonly StoredApplication[], { account }: ZoneAndOwner, follows = false) {
    const viewOf = await this.parts.see({ ids: applications.map(({ id }) => id), follows });
    return applications.map((application) =>
      schema.showApplication(application, account, viewOf(application.id).status),
    );
  }

  /** Answers with an application and its version. */
  async answer({ request, reply }: Call, application: StoredApplication, follows = false) {
    const [shown] = await this.show([application], this.placeOf(request), follows);
    showVersion(reply, application.modifiedAt);
    return shown;
  }

  log(request: FastifyRequest, application: string, done: 'created' | 'changed' | 'removed'): void {
    const { zone, account } = this.placeOf(request);
    const facts = { session: request.id, account: account.name, zone: zone.name, application };
    this.parts.log.info(facts, `proxy application ${done}`);
  }

  /** Finds an application. @throws Refusal 404 where there is none, 412 where If-Match names another version */
  async find(request: FastifyRequest, known: string): Promise<StoredApplication> {
    const { store } = this.parts;
    const isId = /^[0-9a-f]{32}$/i.test(known);
    const application = isId ? await store.get(this.placeOf(request).zone.id, known.toLowerCase()) : undefined;
    if (!application) throw unknownApplication();
    judgeVersion(request, application.modifiedAt);
    return application;
  }

  /** Makes a change, and answers with the application as it is then. @param known its id in the path; absent: of a new one */
  async write(call: Call, kind: AskedWrite['kind'], known?: string) {
    const { request } = call;
    const id = known?.toLowerCase() ?? randomHex(16);
    const asked: AskedWrite = {
      ...this.placeOf(request),
      kind,
      id,
      body: request.body,
      rights: { readsPrefixes: submitterOf(request).credential.scopes.has('ip_prefixes:read') },
      rayId: request.id,
      ...(known === undefined ? {} : { find: () => this.find(request, known) }),
    };
    const end = await writeApplication(asked, this.parts);
    if (!end.ok) throw new Refusal(end.faults);
    this.log(request, id, kind === 'create' ? 'created' : 'changed');
    return await this.answer(call, end.application, true);
  }

  /** Removes an application. @returns its id */
  async remove(request: FastifyRequest, known: string): Promise<string> {
    const { store, see } = this.parts;
    const { zone } = this.placeOf(request);
    const { id, modifiedAt } = await this.find(request, known);
    const ifModifiedAt = namesVersion(request) ? modifiedAt : undefined;
    if (!(await store.remove(zone.id, id, ifModifiedAt)))
      throw (await store.get(zone.id, id)) ? changed() : unknownApplication();
    this.log(request, id, 'removed');
    await see({ ids: [], follows: true });
    return id;
  }
}

type Call = Pick<AskedOf, 'request' | 'reply'>;

/** How the body of a write is read: the rules judge it, and its schema only documents it (D82). */
const written = { bodyBytes, validatorCompiler: () => (): true => true } as const;

const listApplications = endpoint({
  at: 'GET /apps',
  operationId: 'listProxyApplications',
  summary: 'List the applications of a zone',
  description: '`result_info` has page, per_page, count, total_count and total_pages.',
  params: schema.zonePath,
  query: schema.listQuery,
  result: Type.Array(schema.shownApplication),
  async answer({ query, request, reply }, zones: Zones) {
    const { store, see } = zones.parts;
    const place = zones.placeOf(request);
    const page = schema.readPage(query);
    const { order = 'dns', direction = 'asc' } = query;
    const filter = await filterOf(query, see);
    const { applications, total } = await store.list(place.zone.id, { ...page, order, direction, ...filter });
    const shown = await zones.show(applications, place);
    return succeed(reply, shown, { result_info: schema.pageInfo(page, shown.length, total) });
  },
});

const listProtocols = endpoint({
  at: 'GET /protocols',
  operationId: 'listProxyProtocols',
  summary: 'List the protocols that applications of a zone may have',
  params: schema.zonePath,
  result: Type.Array(schema.shownProtocol),
  answer({ request }, zones: Zones) {
    const { zone, account } = zones.placeOf(request);
    return schema.zoneProtocols(zone, account, zones.parts.ownPorts());
  },
});

const getApplication = endpoint({
  at: 'GET /apps/:app_id',
  operationId: 'getProxyApplication',
  summary: 'Show an application',
  params: schema.applicationPath,
  result: schema.shownApplication,
  answer: async ({ params, ...call }, zones: Zones) =>
    zones.answer(call, await zones.find(call.request, params.app_id)),
});

const getTraffic = endpoint({
  at: 'GET /apps/:app_id/traffic',
  operationId: 'getProxyApplicationTraffic',
  summary: 'Show what an application has carried since the process that carries it began',
  description: 'Counters, the state of its origins, and the latest events of its connections.',
  params: schema.applicationPath,
  result: schema.shownTraffic,
  async answer({ params, request }, zones: Zones) {
    const { id } = await zones.find(request, params.app_id);
    const viewOf = await zones.parts.see({ ids: [id], traffic: 'all' });
    return schema.showTraffic(viewOf(id).traffic);
  },
});

function writingEndpoints(codes: readonly DocumentedCode[]) {
  const writes = { codes: [...codes, changedCode], reading: written, result: schema.shownApplication };
  return [
    endpoint({
      at: 'POST /apps',
      operationId: 'createProxyApplication',
      summary: 'Create an application',
      description: 'It listens when the answer comes; `status` says so, or why not.',
      ...writes,
      params: schema.zonePath,
      body: newApplication,
      answer: (call, zones: Zones) => zones.write(call, 'create'),
    }),
    endpoint({
      at: 'PUT /apps/:app_id',
      operationId: 'replaceProxyApplication',
      summary: 'Replace an application',
      description: 'What is not sent is gone. `dns.type` cannot be changed.',
      ...writes,
      params: schema.applicationPath,
      body: newApplication,
      answer: ({ params, ...call }, zones: Zones) => zones.write(call, 'replace', params.app_id),
    }),
    endpoint({
      at: 'PATCH /apps/:app_id',
      operationId: 'updateProxyApplication',
      summary: 'Change fields of an application',
      description: 'The merged application is judged. Open connections go on for the drain time.',
      ...writes,
      bodyTypes: ['application/json', 'application/merge-patch+json'],
      params: schema.applicationPath,
      body: schema.applicationPatch,
      answer: ({ params, ...call }, zones: Zones) => zones.write(call, 'patch', params.app_id),
    }),
  ];
}

const deleteApplication = endpoint({
  at: 'DELETE /apps/:app_id',
  operationId: 'deleteProxyApplication',
  summary: 'Remove an application',
  description: 'It takes no new connections; open ones go on for the drain time.',
  codes: [changedCode],
  reading: { bodyBytes },
  params: schema.applicationPath,
  result: schema.removedApplication,
  answer: async ({ params, request }, zones: Zones) => ({ id: await zones.remove(request, params.app_id) }),
});

/** The endpoints of the proxy applications of all zones. */
export function applicationEndpoints(parts: ApplicationEndpointsParts): V4Plugin {
  const zones = new Zones(parts);
  const place: EndpointTarget = {
    path: '/zones/:zone_id/proxy',
    tag: 'Proxy applications',
    reads: ['proxy:read', 'console:read'],
    edits: 'proxy:edit',
    // Within this process. A change ends when the application listens; a rest as long leaves the database to others.
    pace: createRestingQueues(parts.clock, 1),
    // Accounts whose plan has no proxy applications are kept out before a body is read (D99).
    async before(request) {
      const { account } = zones.placeOf(request);
      if (account.plan !== 'free') return;
      throw refusal('E_FORBIDDEN', 'Plan free has no proxy applications');
    },
  };
  return endpointsOf(place, zones, [
    ...[listApplications, listProtocols, getApplication, getTraffic],
    ...[...writingEndpoints(parts.codes), deleteApplication],
  ]);
}

type TrafficEndpointParts = Pick<ApplicationEndpointsParts, 'zones' | 'store' | 'see'>;

const mostApplications = 200;

const application = Type.Object(
  {
    id: Type.String(),
    zone: Type.String(),
    zone_id: Type.String(),
    protocol: Type.String({ example: 'tcp/22' }),
    hostname: Type.String(),
    state: Type.Enum(['active', 'pending', 'failed']),
    reason: Type.String(),
    counters: Type.Object(schema.shownCounters, {
      description: 'Since the process that carries them began; `open` is now',
    }),
    listening: Type.Array(Type.String()),
  },
  { title: 'ApplicationTraffic' },
);

async function applicationsOf({ zones, store }: TrafficEndpointParts, account: string) {
  const found: { readonly zone: ProxyZone; readonly application: StoredApplication }[] = [];
  let total = 0;
  for (const zone of zones.filter((each) => each.account === account)) {
    const left = mostApplications - found.length;
    const page = { page: 1, perPage: Math.max(1, left), order: 'protocol', direction: 'asc' } as const;
    const list = await store.list(zone.id, page);
    total += list.total;
    for (const application of list.applications.slice(0, left)) found.push({ zone, application });
  }
  return { found, total };
}

const listTraffic = endpoint({
  at: 'GET /traffic',
  operationId: 'listProxyTraffic',
  summary: 'Tell what the proxy applications of an account carry',
  description: `At most ${mostApplications} applications; \`result_info.total_count\` tells how many there are. The counters are those of the process that carries them, since its start.`,
  result: Type.Array(application),
  async answer({ account, reply }, parts: TrafficEndpointParts) {
    const { found, total } = await applicationsOf(parts, account.id);
    const viewOf = await parts.see({ ids: found.map(({ application: { id } }) => id), traffic: 'sums' });
    const shown = found.map(({ zone, application: { id, fields } }) => {
      const {
        status: { state, reason },
        traffic,
      } = viewOf(id);
      const { counters, listening } = schema.showTraffic(traffic);
      const about = { id, zone: zone.name, zone_id: zone.id, protocol: fields.protocol, hostname: fields.dns.name };
      return { ...about, state, reason, counters, listening };
    });
    return succeed(reply, shown, { result_info: { count: shown.length, total_count: total } });
  },
});

/** The endpoint that tells what all applications of an account carry. */
export function trafficEndpoint(parts: TrafficEndpointParts): V4Plugin {
  const place = { path: '/accounts/:account_id/proxy', tag: 'Proxy applications' };
  return endpointsOf({ ...place, reads: ['proxy:read', 'console:read'] }, parts, [listTraffic]);
}

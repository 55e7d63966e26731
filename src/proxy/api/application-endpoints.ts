// /zones/{zone_id}/proxy: the proxy-application API (D80, D81, D85).

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { randomHex } from '../../base/ids.ts';
import { member } from '../../base/is-record.ts';
import { createKeyedQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import {
  changed,
  changedCode,
  endpointsAt,
  judgeVersion,
  namesVersion,
  type Register,
  showVersion,
} from '../../web/http/endpoint.ts';
import { Refusal, succeed } from '../../web/http/envelope.ts';
import { type DocumentedCode, submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import type { ApplicationStatus, StoredApplication } from '../application/application.ts';
import { parseProtocol } from '../application/protocol.ts';
import { got } from '../application/quote.ts';
import { type ProxyOwners, placesOf, type ZoneAndOwner } from '../application/zone.ts';
import type { SeeApplications } from '../plane/application-views.ts';
import type { AskedWrite } from '../rules/judge-write.ts';
import { zoneProtocols } from '../rules/zone-protocols.ts';
import type { ApplicationQuery } from '../store/store.ts';
import { showApplication, showTraffic } from './application-answer.ts';
import * as schema from './application-schema.ts';
import { pageInfo, readPage } from './application-schema.ts';
import { type WriteParts, writeApplication } from './write-application.ts';

/** What the endpoints work on. */
export interface ApplicationEndpointsParts extends WriteParts, ProxyOwners {
  /** How the applications are, asked of the process that carries them. */
  readonly see: SeeApplications;
  /** Edge ports that the gateway itself has, the offset taken away (D84). */
  readonly ownPorts: () => readonly number[];
  /** Codes and statuses that a write may be refused with, for the OpenAPI document. */
  readonly codes: readonly DocumentedCode[];
  readonly log: Logger;
  /** Makes the id of a new application, 32 hex. */
  readonly newId?: () => string;
}

/** A body holds one application: 64 KiB. */
const bodyBytes = 65_536;

/** An id as the store has it; undefined where the text is no id. */
function applicationId(text: string): string | undefined {
  return /^[0-9a-f]{32}$/i.test(text) ? text.toLowerCase() : undefined;
}

function unknownApplication(): Refusal {
  return new Refusal([{ token: 'E_NOT_FOUND', message: 'There is no such application in this zone' }]);
}

/** Finds the zone of a path; authorization has seen to it that it is the caller's. */
function createPlaces(owners: ProxyOwners) {
  const places = placesOf(owners);
  return (request: FastifyRequest): ZoneAndOwner => {
    const id = String(member(request.params, 'zone_id'));
    const place = places.get(id.toLowerCase());
    if (!place) throw new Error(`Zone ${id} was authorized and is not there`);
    return place;
  };
}

/** Keeps accounts out whose plan has no proxy applications, before a body is read (D99). */
function hasPlan(placeOf: (request: FastifyRequest) => ZoneAndOwner): (request: FastifyRequest) => Promise<void> {
  return async (request) => {
    const { account } = placeOf(request);
    if (account.plan !== 'free') return;
    throw new Refusal([{ token: 'E_FORBIDDEN', message: 'Plan free has no proxy applications' }]);
  };
}

/** Which applications a list is to have. */
async function filterOf(
  query: { readonly dns?: string; readonly protocol?: string; readonly status?: ApplicationStatus['state'] },
  see: SeeApplications,
): Promise<Pick<ApplicationQuery, 'hostname' | 'protocol' | 'accepts'>> {
  const { dns, protocol: text, status } = query;
  const protocol = text === undefined ? undefined : parseProtocol(text);
  if (text !== undefined && !protocol) {
    const message = `"protocol" must be like "tcp/22", "udp/53", "tcp/1000-2000" or "ftp"; got ${got(text)}`;
    throw new Refusal([{ token: 'E_VALIDATION_ERROR', message }]);
  }
  const viewOf = status === undefined ? undefined : await see({});
  return {
    ...(dns === undefined ? {} : { hostname: dns }),
    ...(protocol ? { protocol } : {}),
    ...(viewOf ? { accepts: (id: string) => viewOf(id).status.state === status } : {}),
  };
}

type Shared = ReturnType<typeof share>;

function share(parts: ApplicationEndpointsParts) {
  const placeOf = createPlaces(parts);
  const { store, see, log } = parts;
  const queues = createKeyedQueues();
  async function show(applications: readonly StoredApplication[], { account }: ZoneAndOwner, follows = false) {
    const viewOf = await see({ ids: applications.map(({ id }) => id), follows });
    return applications.map((application) => showApplication(application, account, viewOf(application.id).status));
  }
  const logged = (request: FastifyRequest, { zone, account }: ZoneAndOwner, application: string, what: string): void =>
    log.info({ session: request.id, account: account.name, zone: zone.name, application }, what);
  /** Answers with an application and its version. */
  const answer = async (reply: FastifyReply, application: StoredApplication, place: ZoneAndOwner, follows = false) => {
    const [shown] = await show([application], place, follows);
    showVersion(reply, application.modifiedAt);
    return succeed(reply, shown);
  };

  async function write(request: FastifyRequest, reply: FastifyReply, kind: AskedWrite['kind'], known?: string) {
    const place = placeOf(request);
    const valid = known === undefined ? undefined : applicationId(known);
    const id = valid ?? parts.newId?.() ?? randomHex(16);
    let refusal = unknownApplication();
    /** Judging takes whatever is thrown for a fault of ours, so a refusal is kept until it has ended. */
    const keep = (error: unknown): undefined => {
      if (!(error instanceof Refusal)) throw error;
      refusal = error;
    };
    const asked: AskedWrite = {
      kind,
      body: request.body,
      ...place,
      rights: { readsPrefixes: submitterOf(request).credential.scopes.has('ip_prefixes:read') },
      id,
      rayId: request.id,
      find: () => find(request, known ?? '').catch(keep),
    };
    // Within this process, changes of an application wait for one another. Changes by other processes show in its date.
    const end = await queues(id, () => writeApplication(asked, parts));
    if (!end.ok) throw 'faults' in end ? new Refusal(end.faults) : refusal;
    logged(request, place, id, kind === 'create' ? 'proxy application created' : 'proxy application changed');
    return await answer(reply, end.application, place, true);
  }

  /** Finds an application. @throws Refusal 404 where there is none, 412 where If-Match names another version */
  async function find(request: FastifyRequest, known: string): Promise<StoredApplication> {
    const id = applicationId(known);
    const application = id === undefined ? undefined : await store.get(placeOf(request).zone.id, id);
    if (!application) throw unknownApplication();
    judgeVersion(request, application.modifiedAt);
    return application;
  }

  async function remove(request: FastifyRequest, { zone }: ZoneAndOwner, known: string): Promise<string> {
    const { id, modifiedAt } = await find(request, known);
    const isRemoved = await queues(id, () => store.remove(zone.id, id, namesVersion(request) ? modifiedAt : undefined));
    if (isRemoved) return id;
    throw (await store.get(zone.id, id)) ? changed() : unknownApplication();
  }

  return { parts, placeOf, show, answer, logged, write, find, remove };
}

/** How the body of a write is read: the rules judge it, and its schema only documents it (D82). */
const written = { bodyBytes, validatorCompiler: () => (): true => true } as const;

function readingEndpoints(endpoint: Register, { parts, placeOf, show, answer, find }: Shared): void {
  endpoint(
    'GET /apps',
    {
      operationId: 'listProxyApplications',
      summary: 'List the applications of a zone',
      description: '`result_info` has page, per_page, count, total_count and total_pages.',
      params: schema.zonePath,
      query: schema.listQuery,
      result: Type.Array(schema.shownApplication),
    },
    async ({ query, request, reply }) => {
      const place = placeOf(request);
      const page = readPage(query);
      const { order = 'dns', direction = 'asc' } = query;
      const filter = await filterOf(query, parts.see);
      const { applications, total } = await parts.store.list(place.zone.id, { ...page, order, direction, ...filter });
      const shown = await show(applications, place);
      return succeed(reply, shown, { result_info: pageInfo(page, shown.length, total) });
    },
  );

  endpoint(
    'GET /apps/:app_id',
    {
      operationId: 'getProxyApplication',
      summary: 'Show an application',
      params: schema.applicationPath,
      result: schema.shownApplication,
    },
    async ({ params, request, reply }) => answer(reply, await find(request, params.app_id), placeOf(request)),
  );

  endpoint(
    'GET /apps/:app_id/traffic',
    {
      operationId: 'getProxyApplicationTraffic',
      summary: 'Show what an application has carried since the process that carries it began',
      description: 'Counters, the state of its origins, and the latest events of its connections.',
      params: schema.applicationPath,
      result: schema.shownTraffic,
    },
    async ({ params, request }) => {
      const { id } = await find(request, params.app_id);
      const viewOf = await parts.see({ ids: [id], traffic: 'all' });
      return showTraffic(viewOf(id).traffic);
    },
  );

  endpoint(
    'GET /protocols',
    {
      operationId: 'listProxyProtocols',
      summary: 'List the protocols that applications of a zone may have',
      params: schema.zonePath,
      result: Type.Array(schema.shownProtocol),
    },
    ({ request }) => {
      const { zone, account } = placeOf(request);
      return zoneProtocols(zone, account, parts.ownPorts());
    },
  );
}

function writingEndpoints(endpoint: Register, { parts, placeOf, write, remove, logged }: Shared): void {
  const writes = { codes: [...parts.codes, changedCode], reading: written, result: schema.shownApplication };
  endpoint(
    'POST /apps',
    {
      operationId: 'createProxyApplication',
      summary: 'Create an application',
      description: 'It listens when the answer comes; `status` says so, or why not.',
      ...writes,
      params: schema.zonePath,
      body: schema.newApplication,
    },
    ({ request, reply }) => write(request, reply, 'create'),
  );

  endpoint(
    'PUT /apps/:app_id',
    {
      operationId: 'replaceProxyApplication',
      summary: 'Replace an application',
      description: 'What is not sent is gone. `dns.type` cannot be changed.',
      ...writes,
      params: schema.applicationPath,
      body: schema.newApplication,
    },
    ({ params, request, reply }) => write(request, reply, 'replace', params.app_id),
  );

  endpoint(
    'PATCH /apps/:app_id',
    {
      operationId: 'updateProxyApplication',
      summary: 'Change fields of an application',
      description: 'The merged application is judged. Open connections go on for the drain time.',
      ...writes,
      bodyTypes: ['application/json', 'application/merge-patch+json'],
      params: schema.applicationPath,
      body: schema.applicationPatch,
    },
    ({ params, request, reply }) => write(request, reply, 'patch', params.app_id),
  );

  endpoint(
    'DELETE /apps/:app_id',
    {
      operationId: 'deleteProxyApplication',
      summary: 'Remove an application',
      description: 'It takes no new connections; open ones go on for the drain time.',
      codes: [changedCode],
      reading: { bodyBytes },
      params: schema.applicationPath,
      result: schema.removedApplication,
    },
    async ({ params, request }) => {
      const place = placeOf(request);
      const id = await remove(request, place, params.app_id);
      logged(request, place, id, 'proxy application removed');
      await parts.see({ ids: [], follows: true });
      return { id };
    },
  );
}

/** The endpoints of the proxy applications of all zones. */
export function applicationEndpoints(parts: ApplicationEndpointsParts): V4Plugin {
  return (app) => {
    const shared = share(parts);
    const endpoint = endpointsAt(app, {
      path: '/zones/:zone_id/proxy',
      tag: 'Proxy applications',
      reads: ['proxy:read', 'console:read'],
      edits: 'proxy:edit',
      before: hasPlan(shared.placeOf),
    });
    readingEndpoints(endpoint, shared);
    writingEndpoints(endpoint, shared);
  };
}

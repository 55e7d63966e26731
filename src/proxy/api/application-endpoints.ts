// /zones/{zone_id}/proxy: the proxy-application API (D80, D81, D85).

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { randomHex } from '../../base/ids.ts';
import type { Logger } from '../../base/log.ts';
import { changed, changedCode, judgeVersion, namesVersion, showVersion } from '../../http/entity-tag.ts';
import { Refusal, succeed } from '../../http/envelope.ts';
import { type DocumentedCode, submitterOf, type V4App, type V4Plugin } from '../../http/v4-app.ts';
import type { ApplicationStatus, StoredApplication } from '../application/application.ts';
import { parseProtocol } from '../application/protocol.ts';
import { got } from '../application/quote.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { SeeApplications } from '../plane/application-views.ts';
import type { AskedWrite } from '../rules/judge-write.ts';
import { zoneProtocols } from '../rules/zone-protocols.ts';
import type { ApplicationQuery } from '../store/store.ts';
import { showApplication, showTraffic } from './application-answer.ts';
import * as schema from './application-schema.ts';
import { pageInfo, readPage } from './application-schema.ts';
import { createTurns, type WriteParts, writeApplication } from './write-application.ts';

/** What the endpoints work on. */
export interface ApplicationEndpointsParts extends WriteParts {
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
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

const path = '/zones/:zone_id/proxy';
const tags = ['Proxy applications'];

interface Place {
  readonly zone: ProxyZone;
  readonly account: ProxyAccount;
}

/** An id as the store has it; undefined where the text is no id. */
function applicationId(text: string): string | undefined {
  return /^[0-9a-f]{32}$/i.test(text) ? text.toLowerCase() : undefined;
}

function unknownApplication(): Refusal {
  return new Refusal([{ token: 'E_NOT_FOUND', message: 'There is no such application in this zone' }]);
}

/** Finds the zone of a path; authorization has seen to it that it is the caller's. */
function createPlaces({ zones, accounts }: Pick<ApplicationEndpointsParts, 'zones' | 'accounts'>) {
  const accountById = new Map(accounts.map((account) => [account.id, account]));
  const places = new Map<string, Place>();
  for (const zone of zones) {
    const account = accountById.get(zone.account);
    if (account) places.set(zone.id, { zone, account });
  }
  return (request: FastifyRequest): Place => {
    const { params } = request;
    const id = typeof params === 'object' && params !== null && 'zone_id' in params ? String(params.zone_id) : '';
    const place = places.get(id.toLowerCase());
    if (!place) throw new Error(`Zone ${id} was authorized and is not there`);
    return place;
  };
}

/** Keeps accounts out whose plan has no proxy applications, before a body is read (D99). */
function hasPlan(placeOf: (request: FastifyRequest) => Place): (request: FastifyRequest) => Promise<void> {
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
  const turns = createTurns();
  async function show(applications: readonly StoredApplication[], { account }: Place, follows = false) {
    const viewOf = await see({ ids: applications.map(({ id }) => id), follows });
    return applications.map((application) => showApplication(application, account, viewOf(application.id).status));
  }
  const logged = (request: FastifyRequest, { zone, account }: Place, application: string, what: string): void =>
    log.info({ session: request.id, account: account.name, zone: zone.name, application }, what);
  /** Answers with an application and its version. */
  const answer = async (reply: FastifyReply, application: StoredApplication, place: Place, follows = false) => {
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
    const end = await turns(id, () => writeApplication(asked, parts));
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

  async function remove(request: FastifyRequest, { zone }: Place, known: string): Promise<string> {
    const { id, modifiedAt } = await find(request, known);
    const isRemoved = await turns(id, () => store.remove(zone.id, id, namesVersion(request) ? modifiedAt : undefined));
    if (isRemoved) return id;
    throw (await store.get(zone.id, id)) ? changed() : unknownApplication();
  }

  return { parts, placeOf, onRequest: hasPlan(placeOf), show, answer, logged, write, find, remove };
}

const reads = { scope: ['proxy:read', 'console:read'] } as const;
const edits = { scope: 'proxy:edit', bodyBytes } as const;
/** Accepts any body: the rules judge bodies, and their schemas only document them (D82). */
const takesAll = () => (): true => true;

function readingRoutes(app: V4App, { parts, placeOf, onRequest, show, answer, find }: Shared): void {
  app.get(
    `${path}/apps`,
    {
      onRequest,
      config: reads,
      schema: {
        operationId: 'listProxyApplications',
        summary: 'List the applications of a zone',
        description: '`result_info` has page, per_page, count, total_count and total_pages.',
        tags,
        params: schema.zonePath,
        querystring: schema.listQuery,
        response: { 200: Type.Array(schema.shownApplication) },
      },
    },
    async (request, reply) => {
      const place = placeOf(request);
      const page = readPage(request.query);
      const { order = 'dns', direction = 'asc' } = request.query;
      const filter = await filterOf(request.query, parts.see);
      const { applications, total } = await parts.store.list(place.zone.id, { ...page, order, direction, ...filter });
      const shown = await show(applications, place);
      return succeed(reply, shown, { result_info: pageInfo(page, shown.length, total) });
    },
  );

  app.get(
    `${path}/apps/:app_id`,
    {
      onRequest,
      config: reads,
      schema: {
        operationId: 'getProxyApplication',
        summary: 'Show an application',
        tags,
        params: schema.applicationPath,
        response: { 200: schema.shownApplication },
      },
    },
    async (request, reply) => await answer(reply, await find(request, request.params.app_id), placeOf(request)),
  );

  app.get(
    `${path}/apps/:app_id/traffic`,
    {
      onRequest,
      config: reads,
      schema: {
        operationId: 'getProxyApplicationTraffic',
        summary: 'Show what an application has carried since the process that carries it began',
        description: 'Counters, the state of its origins, and the latest events of its connections.',
        tags,
        params: schema.applicationPath,
        response: { 200: schema.shownTraffic },
      },
    },
    async (request, reply) => {
      const { id } = await find(request, request.params.app_id);
      const viewOf = await parts.see({ ids: [id], traffic: 'all' });
      return succeed(reply, showTraffic(viewOf(id).traffic));
    },
  );

  app.get(
    `${path}/protocols`,
    {
      onRequest,
      config: reads,
      schema: {
        operationId: 'listProxyProtocols',
        summary: 'List the protocols that applications of a zone may have',
        tags,
        params: schema.zonePath,
        response: { 200: Type.Array(schema.shownProtocol) },
      },
    },
    async (request, reply) => {
      const { zone, account } = placeOf(request);
      return succeed(reply, zoneProtocols(zone, account, parts.ownPorts()));
    },
  );
}

function writingRoutes(app: V4App, { parts, placeOf, onRequest, write, remove, logged }: Shared): void {
  const codes = [...parts.codes, changedCode];
  const body = { tags, codes, response: { 200: schema.shownApplication } };
  app.post(
    `${path}/apps`,
    {
      onRequest,
      config: edits,
      validatorCompiler: takesAll,
      schema: {
        operationId: 'createProxyApplication',
        summary: 'Create an application',
        description: 'It listens when the answer comes; `status` says so, or why not.',
        ...body,
        params: schema.zonePath,
        body: schema.newApplication,
      },
    },
    async (request, reply) => write(request, reply, 'create'),
  );

  app.put(
    `${path}/apps/:app_id`,
    {
      onRequest,
      config: edits,
      validatorCompiler: takesAll,
      schema: {
        operationId: 'replaceProxyApplication',
        summary: 'Replace an application',
        description: 'What is not sent is gone. `dns.type` cannot be changed.',
        ...body,
        params: schema.applicationPath,
        body: schema.newApplication,
      },
    },
    async (request, reply) => write(request, reply, 'replace', request.params.app_id),
  );

  app.patch(
    `${path}/apps/:app_id`,
    {
      onRequest,
      config: edits,
      validatorCompiler: takesAll,
      schema: {
        operationId: 'updateProxyApplication',
        summary: 'Change fields of an application',
        description: 'The merged application is judged. Open connections go on for the drain time.',
        ...body,
        bodyTypes: ['application/json', 'application/merge-patch+json'],
        params: schema.applicationPath,
        body: schema.applicationPatch,
      },
    },
    async (request, reply) => write(request, reply, 'patch', request.params.app_id),
  );

  app.delete(
    `${path}/apps/:app_id`,
    {
      onRequest,
      config: edits,
      schema: {
        operationId: 'deleteProxyApplication',
        summary: 'Remove an application',
        description: 'It takes no new connections; open ones go on for the drain time.',
        tags,
        codes: [changedCode],
        params: schema.applicationPath,
        response: { 200: schema.removedApplication },
      },
    },
    async (request, reply) => {
      const place = placeOf(request);
      const id = await remove(request, place, request.params.app_id);
      logged(request, place, id, 'proxy application removed');
      await parts.see({ ids: [], follows: true });
      return succeed(reply, { id });
    },
  );
}

/** The endpoints of the proxy applications of all zones. */
export function applicationEndpoints(parts: ApplicationEndpointsParts): V4Plugin {
  return (app) => {
    const shared = share(parts);
    readingRoutes(app, shared);
    writingRoutes(app, shared);
  };
}

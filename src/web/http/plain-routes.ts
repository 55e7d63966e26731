// The routes outside /client/v4: health, metrics and their readers (RFC 6750), documents, one line for the rest (D67, D97).

import { hash, timingSafeEqual } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Guessing } from '../../accounts/guessing.ts';
import type { Logger } from '../../base/log.ts';
import type { Documents } from './documents.ts';
import { isHeadTooLarge } from './listener/request-end.ts';
import { type FixedDocument, hasTag } from './page/html-page.ts';
import type { V4App } from './v4-app.ts';

interface MetricsToken {
  /** SHA-256 of the token, 64 hexadecimal digits. Undefined where the named token does not exist: then nobody may read. */
  readonly sha256: string | undefined;
}

interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

function oneLine(status: number, text: string, more: Readonly<Record<string, string>> = {}): PlainAnswer {
  const headers = { ...more, 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' };
  return { status, headers, text: `${text}\n` };
}

function answered(reply: FastifyReply, { status, headers, text }: PlainAnswer): FastifyReply {
  return reply.code(status).headers(headers).send(text);
}

/** Answers one line of text through Fastify. */
export function plain(reply: FastifyReply, status: number, text: string): FastifyReply {
  return answered(reply, oneLine(status, text));
}

/** Gives an answer without Fastify. The header field Ray-ID must be set before. */
export function sendPlain(response: ServerResponse, { status, headers, text }: PlainAnswer): void {
  response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(text) });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}

/** Answers one line of text, as `sendPlain` does. */
export function answerPlainly(response: ServerResponse, status: number, text: string): void {
  sendPlain(response, oneLine(status, text));
}

const bearer = /^Bearer +(\S{1,512})$/i;
const challenge = 'Bearer realm="postern"';

/** Compares hashes of equal length, so that the time it takes tells nothing about the token. */
function isToken(shown: string, { sha256 }: MetricsToken): boolean {
  return sha256 !== undefined && timingSafeEqual(hash('sha256', shown, 'buffer'), Buffer.from(sha256, 'hex'));
}

/** Judges the token of a reader; a wrong one may wait (D92). @returns why it is sent away (RFC 6750 §3); undefined where it may read */
async function refuseReader(
  request: FastifyRequest,
  token: MetricsToken,
  { guessing, log, onAuthFailure }: Pick<PlainParts, 'guessing' | 'log'> & Pick<KnownRoutes, 'onAuthFailure'>,
): Promise<PlainAnswer | undefined> {
  const header = request.headers.authorization;
  if (header === undefined) return oneLine(401, 'A bearer token is needed', { 'WWW-Authenticate': challenge });
  await guessing.pause(request.ip);
  const shown = bearer.exec(header)?.[1];
  if (shown !== undefined && isToken(shown, token)) return undefined;
  const penalty = await guessing.failed(request.ip);
  onAuthFailure();
  if (penalty.kind === 'turnedAway') {
    const headers = { 'Retry-After': String(penalty.retryAfterSeconds) };
    return oneLine(429, 'Too many wrong tokens came from this address', headers);
  }
  log.warn({ session: request.id, client: request.ip, path: '/metrics' }, 'authentication failed');
  await penalty.over;
  return oneLine(401, 'The token is wrong', { 'WWW-Authenticate': `${challenge}, error="invalid_token"` });
}

/** The methods of each route, for `Allow` of a 405 (RFC 9110 §15.5.6), which the router cannot tell. */
export class AllowedMethods {
  readonly #routes: { readonly steps: readonly string[]; readonly methods: Set<string> }[] = [];

  /** Notes a route. `url` is the router's pattern: `/a/:name/b`, or `/a/*` for everything below `/a/`. */
  add(url: string, methods: readonly string[]): void {
    const known = this.#routes.find(({ steps }) => steps.join('/') === url);
    if (known) for (const method of methods) known.methods.add(method);
    else this.#routes.push({ steps: url.split('/'), methods: new Set(methods) });
  }

  /** The methods that the path of a request takes, sorted; empty where no route has it. */
  of(path: string): readonly string[] {
    const steps = path.split('/');
    const methods = new Set<string>();
    for (const route of this.#routes) {
      const fits =
        (route.steps.length === steps.length || (route.steps.at(-1) === '*' && route.steps.length < steps.length)) &&
        route.steps.every((step, index) =>
          step.startsWith(':') ? steps[index] !== '' : step === '*' || step === steps[index],
        );
      if (fits) for (const method of route.methods) methods.add(method);
    }
    return [...methods].sort();
  }
}

/** What these routes are made from. */
export interface PlainParts {
  readonly log: Logger;
  /** True once every listener is up and until draining begins, while mail is taken. */
  readonly ready: () => Promise<boolean>;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string } | undefined>;
  /** What a reader of /metrics has to show; absent: anybody may read it. */
  readonly metricsToken?: MetricsToken;
  /** The count of wrong tokens, which all protocols share (D92). */
  readonly guessing: Guessing;
}

interface KnownRoutes {
  readonly methods: AllowedMethods;
  readonly documents: () => Documents;
  readonly onAuthFailure: () => void;
}

/** Answers a document, without its octets where the client has it. */
export function sendFixed({ headers }: FastifyRequest, reply: FastifyReply, document: FixedDocument): FastifyReply {
  reply.headers(document.headers);
  return hasTag(headers['if-none-match'], document) ? reply.code(304).send() : reply.send(document.body);
}

/** What probes and scrapers ask all the time, by path. Whether a reader may see the metrics is judged before. */
export const probeAnswers = {
  '/livez': async (): Promise<PlainAnswer> => oneLine(200, 'live'),
  '/readyz': async ({ ready }: Pick<PlainParts, 'ready'>): Promise<PlainAnswer> =>
    (await ready()) ? oneLine(200, 'ready') : oneLine(503, 'not ready'),
  '/metrics': async ({ metrics }: Pick<PlainParts, 'metrics'>): Promise<PlainAnswer> => {
    const read = await metrics();
    if (!read) return oneLine(503, 'Too many readers at once', { 'Retry-After': '1' });
    const headers = { 'Content-Type': read.contentType, 'Cache-Control': 'no-store' };
    return { status: 200, headers, text: read.text };
  },
} as const;

/** Registers the routes outside /client/v4. */
export function plainRoutes(app: V4App, parts: PlainParts, { methods, documents, onAuthFailure }: KnownRoutes): void {
  const { metricsToken, guessing, log } = parts;
  app.addHook('onRoute', ({ url, method }) => methods.add(url, [method].flat()));
  for (const path of ['/livez', '/readyz'] as const)
    app.get(path, async (_request, reply) => answered(reply, await probeAnswers[path](parts)));
  app.get('/metrics', async (request, reply) => {
    const refused = metricsToken && (await refuseReader(request, metricsToken, { guessing, log, onAuthFailure }));
    return answered(reply, refused ?? (await probeAnswers['/metrics'](parts)));
  });
  app.get('/openapi.json', async (request, reply) => sendFixed(request, reply, documents().openApi));
  app.get('/docs', async (request, reply) => sendFixed(request, reply, documents().reference));
  app.get('/', async (request, reply) => sendFixed(request, reply, documents().home));
  // This runs before a body is looked at: a path without a route takes no body.
  app.addHook('onRequest', async (request, reply) => {
    if (request.url.startsWith('/client/v4/')) return undefined;
    if (isHeadTooLarge(request.raw)) return plain(reply, 431, 'Request Header Fields Too Large');
    if (!request.is404) return undefined;
    const allowed = methods.of(request.url.split('?', 1)[0] ?? '/');
    if (allowed.length === 0) return plain(reply, 404, 'Not found');
    return plain(reply.header('Allow', allowed.join(', ')), 405, 'Method not allowed');
  });
  app.setErrorHandler(async (error, request, reply) => {
    parts.log.error({ session: request.id, method: request.method, err: error }, 'http request failed');
    return plain(reply, 500, 'Internal error');
  });
}

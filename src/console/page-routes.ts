// Answers the pages: the same document for every URL of a page, and the files that it loads.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { V4App } from '../http/v4-app.ts';
import type { Coding, PageFile, PageFiles } from './page-files.ts';

/**
 * What a page may do: load scripts, styles and images of its own origin, ask its own origin, and show documents of its own
 * origin in frames. Nothing inline, no other host, no frame around it, no string as script or markup (Trusted Types).
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const security = {
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

/** The codings that a client takes (RFC 9110 §12.5.3), without weighing them: what is refused has the weight 0. */
function codingFor({ headers }: FastifyRequest, { isDense }: PageFile): Coding {
  if (isDense) return 'identity';
  const taken = (headers['accept-encoding'] ?? '')
    .toLowerCase()
    .split(',')
    .map((item) => item.trim().split(/\s*;\s*/))
    .filter(([, weight = 'q=1']) => !/^q=0(?:\.0*)?$/.test(weight))
    .map(([coding]) => coding);
  return (['br', 'gzip'] as const).find((coding) => taken.includes(coding)) ?? 'identity';
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { file, cacheControl }: { readonly file: PageFile; readonly cacheControl: string },
): Promise<FastifyReply> {
  const coding = codingFor(request, file);
  const etag = `"${file.tag}${coding === 'identity' ? '' : `-${coding}`}"`;
  reply.headers({ ...security, etag, 'cache-control': cacheControl, vary: 'Accept-Encoding' });
  const held = request.headers['if-none-match'];
  if (held?.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag) === true) return reply.code(304).send();
  if (coding !== 'identity') reply.header('content-encoding', coding);
  return reply.type(file.contentType).send(await file.octets(coding));
}

function plain(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).header('Cache-Control', 'no-store').type('text/plain; charset=utf-8').send(`${text}\n`);
}

const assets = '/console/assets/';

/** Registers the pages. @param read gives the files; called with each request */
export function pageRoutes(app: V4App, read: () => Promise<PageFiles>): void {
  const index = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { index: file } = await read();
    if (!file) return plain(reply, 404, 'The pages of the console are not installed here');
    // Asked for anew each time: after an update it names other files.
    return await answer(request, reply, { file, cacheControl: 'no-cache' });
  };
  app.get('/console', index);
  app.get('/console/*', index);
  app.get('/m/*', index);
  app.get(`${assets}*`, async (request, reply) => {
    const files = await read();
    // As it was sent: a name of the list has nothing that would have to be encoded.
    const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
    const start = `${assets}${files.hash}/`;
    const file = path.startsWith(start) ? files.find(path.slice(start.length)) : undefined;
    if (!file) return plain(reply, 404, 'Not found');
    return await answer(request, reply, { file, cacheControl: 'public, max-age=31536000, immutable' });
  });
}

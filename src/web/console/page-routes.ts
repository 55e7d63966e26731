// Answers the pages from memory: one document for every URL of a page, and its files, whose paths hold a digest of all.

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { environmentOfThread } from '../../base/load/compiled-code.ts';
import { lazily } from '../../base/load/lazily.ts';
import { plain } from '../http/plain-routes.ts';
import type { V4App } from '../http/v4-app.ts';
import type { Coding, MadeFile, MadeFiles } from './files/make-files.ts';
import { assetsPath } from './files/page-text.ts';

/** Makes the files on a thread, which ends with it. @throws Error where a file is missing or cannot be read */
async function makeOnThread(): Promise<MadeFiles> {
  // Node 24 warns at each start that taking types out is experimental; `tsc` checks the files, the tests run what comes out.
  const worker = new Worker(new URL('./files/make-files.ts', import.meta.url), {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    env: environmentOfThread(),
  });
  const [files]: MadeFiles[] = await once(worker, 'message');
  if (!files) throw new Error('The thread that makes the files of the console made none');
  return files;
}

/** The console's files, made at the first call, by a thread; a call after one that failed tries again. @throws Error where one is missing */
const pageFiles = lazily(async () => {
  const made = await makeOnThread();
  return { ...made, files: new Map(made.files.map((file) => [file.path, file])) };
});

/** A page loads and asks its own origin alone: nothing inline, no frame, no string as markup but by the policy of the preview. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  'img-src data:',
  "connect-src 'self'",
  "frame-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types postern-preview',
].join('; ');

const security = {
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

/** The codings that a client takes (RFC 9110 §12.5.3), without weighing them: what is refused has the weight 0. */
function codingFor({ headers }: FastifyRequest): Coding {
  const taken = (headers['accept-encoding'] ?? '')
    .toLowerCase()
    .split(',')
    .map((item) => item.trim().split(/\s*;\s*/))
    .filter(([, weight = 'q=1']) => !/^q=0(?:\.0*)?$/.test(weight))
    .map(([coding]) => coding);
  return (['br', 'gzip'] as const).find((coding) => taken.includes(coding)) ?? 'identity';
}

function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { file, cacheControl }: { readonly file: MadeFile; readonly cacheControl: string },
): FastifyReply {
  const coding = codingFor(request);
  reply.headers({ ...security, 'cache-control': cacheControl, vary: 'Accept-Encoding' });
  if (coding !== 'identity') reply.header('content-encoding', coding);
  return reply.type(file.contentType).send(file.octets[coding]);
}

/** Registers the pages. */
export function pageRoutes(app: V4App): void {
  for (const path of ['/console', '/console/*', '/m/*']) {
    app.get(path, async (request, reply) => {
      const { index: file } = await pageFiles();
      // Asked for anew each time: after an update it names other files.
      return answer(request, reply, { file, cacheControl: 'no-cache' });
    });
  }
  app.get(`${assetsPath}*`, async (request, reply) => {
    const { digest, files } = await pageFiles();
    // As it was sent: a name of the list has nothing that would have to be encoded.
    const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
    const start = `${assetsPath}${digest}/`;
    const file = path.startsWith(start) ? files.get(path.slice(start.length)) : undefined;
    if (!file) return plain(reply, 404, 'Not found');
    return answer(request, reply, { file, cacheControl: 'public, max-age=31536000, immutable' });
  });
}

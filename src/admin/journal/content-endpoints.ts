// GET .../journal/{id}/received, /sent, /preview and /dkim: the content of a message, as much as the journal keeps of it.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../../http/v4-app.ts';
import type { Journal, JournalEntry } from '../../journal/journal.ts';
import type { JournalContent } from '../../journal/journal-row.ts';
import type { ContentReader } from '../../journal/reader/content-reader.ts';
import { createSearchTurns } from '../events/search-turns.ts';
import { entryNamed } from './journal-endpoints.ts';
import { entryOfAccount, entryOfAny, previewAnswer, signatureVerdict } from './schemas.ts';

/** What the endpoints are made from. */
export interface ContentParts {
  readonly journal: Pick<Journal, 'find' | 'content'>;
  /** `journal.enabled`. */
  readonly isOn: boolean;
  readonly reader: ContentReader;
  /** The DNS records of the keys on file, each name with its text. */
  readonly keyRecords: () => readonly (readonly [string, string])[];
}

type Side = 'received' | 'sent';

function missing(message: string): Refusal {
  return new Refusal([{ token: 'E_NOT_FOUND', message }]);
}

/** The octets of a side: the whole message, or its header section where that is all that is kept. @throws Refusal */
function octetsOf(content: JournalContent | undefined, side: Side, entry: JournalEntry): Buffer {
  if (side === 'received' && entry.facts.via === 'rest')
    throw missing('It came as the fields of a request, so there is no message as it came');
  const [head, body] =
    side === 'received' ? [content?.receivedHead, content?.receivedBody] : [content?.sentHead, content?.sentBody];
  if (head) return body ? Buffer.concat([head, body]) : head;
  if (side === 'sent' && entry.outcome === 'refused') throw missing('It was refused, so nothing has left');
  throw missing('Nothing of its content is kept: journal.content was none, or it was too old or too much');
}

async function octetsNamed({ journal }: ContentParts, entry: JournalEntry, side: Side): Promise<Buffer> {
  return octetsOf(await journal.content(entry.seq), side, entry);
}

/** The octets of a side, undefined where it cannot be had. */
function optional(content: JournalContent | undefined, side: Side, entry: JournalEntry): Buffer | undefined {
  try {
    return octetsOf(content, side, entry);
  } catch {
    return undefined;
  }
}

async function preview({ journal, reader }: ContentParts, entry: JournalEntry) {
  const content = await journal.content(entry.seq);
  const shown = async (side: Side) => {
    const octets = optional(content, side, entry);
    if (!octets) return null;
    const read = await reader.preview(octets, entry.account);
    const body = side === 'received' ? content?.receivedBody : content?.sentBody;
    return 'error' in read ? { unreadable: read.error } : { ...read, body_kept: body !== undefined };
  };
  return { received: await shown('received'), sent: await shown('sent') };
}

async function signatures(parts: ContentParts, entry: JournalEntry) {
  const content = await parts.journal.content(entry.seq);
  if (!content?.sentBody) throw missing('The body that left is not kept, so its signatures cannot be verified');
  const octets = octetsOf(content, 'sent', entry);
  const verdicts = await parts.reader.verify(octets, parts.keyRecords(), entry.account);
  if ('error' in verdicts) throw missing(`It cannot be verified: ${verdicts.error}`);
  return verdicts;
}

/** Answers octets as a file that no browser shows as a page. */
function download(reply: FastifyReply, octets: Buffer, name: string): FastifyReply {
  return reply
    .header('Content-Disposition', `attachment; filename="${name}"`)
    .header('X-Content-Type-Options', 'nosniff')
    .header('Content-Security-Policy', "default-src 'none'; sandbox")
    .type('message/rfc822')
    .send(octets);
}

type Answer = (entry: JournalEntry, reply: FastifyReply) => Promise<FastifyReply>;

/** Registers an endpoint below an entry, of an account and of any. */
function below(
  app: V4App,
  parts: ContentParts,
  { name, answer, schema }: { readonly name: string; readonly answer: Answer; readonly schema: BelowSchema },
): void {
  const { operationId, ...common } = { ...schema, tags: ['Journal'] };
  app.get(
    `/accounts/:account_id/email/sending/journal/:id/${name}`,
    { config: { scope: 'console:read' }, schema: { ...common, operationId, params: entryOfAccount } },
    async (request, reply) =>
      await answer(await entryNamed(parts, request.params.id, submitterOf(request).account.name), reply),
  );
  app.get(
    `/email/sending/journal/:id/${name}`,
    { config: { scope: 'admin' }, schema: { ...common, operationId: `${operationId}OfAny`, params: entryOfAny } },
    async (request: FastifyRequest<{ Params: { readonly id: string } }>, reply) =>
      await answer(await entryNamed(parts, request.params.id, undefined), reply),
  );
}

interface BelowSchema {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly answerType?: string;
  readonly response?: object;
}

/** The endpoints of content. */
export function contentEndpoints(parts: ContentParts): V4Plugin {
  // What waits for the process that reads holds no octets meanwhile.
  const inTurn = createSearchTurns();
  const file = { description: 'Its header section alone, where no more is kept.', answerType: 'message/rfc822' };
  const send =
    (side: Side): Answer =>
    async (entry, reply) =>
      download(reply, await octetsNamed(parts, entry, side), `${entry.id}-${side}.eml`);
  return (app) => {
    const received = { operationId: 'getMessageAsReceived', summary: 'Give a message as it came', ...file };
    below(app, parts, { name: 'received', answer: send('received'), schema: received });
    const sent = { operationId: 'getMessageAsSent', summary: 'Give a message as it left', ...file };
    below(app, parts, { name: 'sent', answer: send('sent'), schema: sent });
    below(app, parts, {
      name: 'preview',
      answer: async (entry, reply) => succeed(reply, await inTurn(entry.account, () => preview(parts, entry))),
      schema: {
        operationId: 'previewMessage',
        summary: 'Take a message apart for people: text, HTML, attachments, as it came and as it left',
        description: 'The HTML is as it came. Whoever shows it has to see that nothing in it runs or loads.',
        response: { 200: previewAnswer },
      },
    });
    below(app, parts, {
      name: 'dkim',
      answer: async (entry, reply) => succeed(reply, await inTurn(entry.account, () => signatures(parts, entry))),
      schema: {
        operationId: 'verifyMessage',
        summary: 'Verify the signatures of a message as it left against the keys on file',
        response: { 200: Type.Array(signatureVerdict) },
      },
    });
  };
}

// GET .../journal/{id}/received, /sent, /preview and /dkim: the content of a message, as much as the journal keeps of it.

import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { createKeyedQueues } from '../../../base/keyed-queues.ts';
import type { Journal, JournalEntry } from '../../../spool/journal/journal.ts';
import type { JournalContent } from '../../../spool/journal/journal-row.ts';
import type { ContentReader } from '../../../spool/journal/reader/content-reader.ts';
import { type ApiEndpoint, endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import { refusal } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { entryNamed, entryPlace } from './journal-endpoints.ts';
import { entryPath, previewAnswer, signatureVerdict } from './schemas.ts';

interface ContentParts {
  readonly journal: Pick<Journal, 'find' | 'content'>;
  /** `journal.enabled`. */
  readonly isOn: boolean;
  readonly reader: Pick<ContentReader, 'preview' | 'verify'>;
  /** The DNS records of the keys on file, each name with its text. */
  readonly keyRecords: () => readonly (readonly [string, string])[];
}

type Side = 'received' | 'sent';

/** The octets of a side: the whole message, or its header section where that is all that is kept; else why it cannot be had. */
function keptOf(content: JournalContent | undefined, side: Side, entry: JournalEntry): Buffer | string {
  if (side === 'received' && entry.facts.via === 'rest')
    return 'It came as the fields of a request, so there is no message as it came';
  const [head, body] =
    side === 'received' ? [content?.receivedHead, content?.receivedBody] : [content?.sentHead, content?.sentBody];
  if (head) return body ? Buffer.concat([head, body]) : head;
  if (side === 'sent' && entry.outcome === 'refused') return 'It was refused, so nothing has left';
  return 'Nothing of its content is kept: journal.content was none, or it was too old or too much';
}

/** The same where it is asked for. @throws Refusal */
function octetsOf(content: JournalContent | undefined, side: Side, entry: JournalEntry): Buffer {
  const kept = keptOf(content, side, entry);
  if (typeof kept === 'string') throw refusal('E_NOT_FOUND', kept);
  return kept;
}

async function preview({ journal, reader }: ContentParts, entry: JournalEntry) {
  const content = await journal.content(entry.seq);
  const shown = async (side: Side) => {
    const octets = keptOf(content, side, entry);
    if (typeof octets === 'string') return null;
    const read = await reader.preview(octets, entry.account);
    const body = side === 'received' ? content?.receivedBody : content?.sentBody;
    return 'error' in read ? { unreadable: read.error } : { ...read, body_kept: body !== undefined };
  };
  return { received: await shown('received'), sent: await shown('sent') };
}

async function signatures(parts: ContentParts, entry: JournalEntry) {
  const content = await parts.journal.content(entry.seq);
  if (!content?.sentBody)
    throw refusal('E_NOT_FOUND', 'The body that left is not kept, so its signatures cannot be verified');
  const octets = octetsOf(content, 'sent', entry);
  const verdicts = await parts.reader.verify(octets, parts.keyRecords(), entry.account);
  if ('error' in verdicts) throw refusal('E_NOT_FOUND', `It cannot be verified: ${verdicts.error}`);
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

interface Content extends ContentParts {
  /** What waits for the process that reads holds no octets meanwhile. */
  readonly inAccountQueue: ReturnType<typeof createKeyedQueues>;
}

type About = Pick<ApiEndpoint<Content>, 'operationId' | 'summary' | 'description' | 'answerType' | 'result'>;

function below(
  name: string,
  about: About,
  show: (entry: JournalEntry, parts: Content, reply: FastifyReply) => unknown,
): ApiEndpoint<Content> {
  return endpoint({
    at: `GET /${name}`,
    ...about,
    params: entryPath,
    answer: async ({ params: { id }, of, reply }, parts: Content) =>
      show(await entryNamed(parts, id, of), parts, reply),
  });
}

function fileOf(side: Side, operationId: string, summary: string): ApiEndpoint<Content> {
  const file = { description: 'Its header section alone, where no more is kept.', answerType: 'message/rfc822' };
  return below(side, { operationId, summary, ...file }, async (entry, { journal }, reply) =>
    download(reply, octetsOf(await journal.content(entry.seq), side, entry), `${entry.id}-${side}.eml`),
  );
}

const aboutPreview = {
  operationId: 'previewMessage',
  summary: 'Take a message apart for people: text, HTML, attachments, as it came and as it left',
  description: 'The HTML is as it came. Whoever shows it has to see that nothing in it runs or loads.',
  result: previewAnswer,
};

const aboutSignatures = {
  operationId: 'verifyMessage',
  summary: 'Verify the signatures of a message as it left against the keys on file',
  result: Type.Array(signatureVerdict),
};

const endpoints = [
  fileOf('received', 'getMessageAsReceived', 'Give a message as it came'),
  fileOf('sent', 'getMessageAsSent', 'Give a message as it left'),
  below('preview', aboutPreview, async (entry, parts) =>
    parts.inAccountQueue(entry.account, () => preview(parts, entry)),
  ),
  below('dkim', aboutSignatures, async (entry, parts) =>
    parts.inAccountQueue(entry.account, () => signatures(parts, entry)),
  ),
];

/** The endpoints of content. */
export function contentEndpoints(parts: ContentParts): V4Plugin {
  const content = { ...parts, inAccountQueue: createKeyedQueues() };
  return (app) => {
    for (const one of endpoints) endpointsOfBoth(entryPlace, content, [one])(app);
  };
}

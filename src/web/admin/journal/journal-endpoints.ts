// GET .../email/sending/journal and .../journal/{id}: every message that was handed in, and why it was refused (D53a).

import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Account } from '../../../accounts/account.ts';
import { bareId } from '../../../mail/message-ids.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import type { Journal, JournalEntry, JournalItem, JournalPage, JournalQuery } from '../../../spool/journal/journal.ts';
import { endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import { refusal, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { queueIdOf } from '../events/event-endpoints.ts';
import { readHistory } from '../events/message-endpoints.ts';
import { faultless, readTime } from '../schemas.ts';
import { entryJson, rowJson } from './entry-json.ts';
import { entryPath, journalEntry, journalParameters, journalRow, usualRows } from './schemas.ts';

/** Says that the journal is off, and how to turn it on. */
export const journalOff =
  'The journal is off, so messages get no entries. To turn it on, set journal.enabled: true (or leave it out) and restart';

/** What tells that the journal is off, in the envelope's `messages`. @param isOn `journal.enabled` */
export function journalNote(isOn: boolean): { readonly messages?: readonly { readonly message: string }[] } {
  return isOn ? {} : { messages: [{ message: journalOff }] };
}

interface JournalParts {
  readonly journal: Pick<Journal, 'list' | 'find' | 'content' | 'rows'>;
  /** `journal.enabled`. */
  readonly isOn: boolean;
  readonly events: Pick<EventStore, 'read' | 'search'>;
  /** The account of a name, as it is configured now. */
  readonly account: (name: string) => Account | undefined;
}

function readQuery(asked: Static<typeof journalParameters>, account: string | undefined): JournalQuery {
  const { cursor, outcome, credential, client, code, field, shadow } = asked;
  return faultless((faults) => ({
    ...{ account, credential, client, code, field, outcome, text: asked.search },
    shadow: shadow === undefined ? undefined : shadow === 'true',
    since: readTime(asked.since, 'since', { faults }),
    until: readTime(asked.until, 'until', { faults }),
    cursor: cursor === undefined ? undefined : Number(cursor),
    limit: Number(asked.per_page ?? usualRows),
  }));
}

/** Messages with one Message-ID of the client's that are looked for. */
const mostNamed = 20;

/** Whether a row that is known by its id is one of those that a query wants, but for its words. */
function fits({ account, outcome, at, facts }: JournalItem, wanted: JournalQuery): boolean {
  if (wanted.account !== undefined && account !== wanted.account) return false;
  if (wanted.outcome !== undefined && outcome !== wanted.outcome) return false;
  if (wanted.credential !== undefined && facts.credential !== wanted.credential) return false;
  if (wanted.client !== undefined && facts.client !== wanted.client) return false;
  if (wanted.code !== undefined && facts.codes?.includes(wanted.code) !== true) return false;
  const field = wanted.field?.toLowerCase();
  if (field !== undefined && facts.fields?.some((name) => name.toLowerCase() === field) !== true) return false;
  return at >= (wanted.since ?? Number.NEGATIVE_INFINITY) && at < (wanted.until ?? Number.POSITIVE_INFINITY);
}

/** Finds the rows whose message the text names, newest first. The client's own Message-ID is looked for within an account alone. */
async function findNamed({ journal, events }: JournalParts, query: JournalQuery): Promise<readonly JournalItem[]> {
  const name = bareId(query.text ?? '');
  const own = queueIdOf(name);
  const ids = new Set(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(own) ? [own] : []);
  if (name.includes('@') && query.account !== undefined) {
    const search = { account: query.account, limit: mostNamed, order: 'newest', kinds: ['accepted'] } as const;
    const page = await events.search({ ...search, clientMessageId: name });
    for (const event of page.events) if (event.kind === 'accepted') ids.add(event.queueId);
  }
  if (ids.size === 0) return [];
  const found = await journal.rows([...ids]);
  return found.filter((item) => fits(item, query)).toSorted((one, other) => other.seq - one.seq);
}

/** Finds an entry. @param account its name; undefined: any. @throws Refusal */
export async function entryNamed(
  { journal, isOn }: { readonly journal: Pick<Journal, 'find'>; readonly isOn: boolean },
  id: string,
  account: string | undefined,
): Promise<JournalEntry> {
  const entry = await journal.find(id.toLowerCase(), account);
  if (entry) return entry;
  const message = 'There is no such entry in the journal: it is too old, or it is another account’s';
  throw refusal('E_NOT_FOUND', isOn ? message : `${message}. ${journalOff}`);
}

async function showEntry(parts: JournalParts, request: FastifyRequest, entry: JournalEntry) {
  const account = parts.account(entry.account);
  const isAccepted = entry.outcome !== 'refused' && !entry.facts.shadow;
  const found = isAccepted ? await readHistory(parts.events, { account: entry.account, message: entry.id }) : undefined;
  return entryJson({
    entry,
    content: await parts.journal.content(entry.seq),
    credential: account?.credentials.get(entry.facts.credential ?? ''),
    sendingDomains: account?.sendingDomains.map(({ name }) => name) ?? [],
    history: found?.history,
    path: request.url.split('?', 1)[0] ?? '',
  });
}

const listJournal = endpoint({
  at: 'GET',
  operationId: 'listJournal',
  summary: 'List every message that was handed in, accepted or refused, newest first',
  description:
    '`result_info.cursor` leads to the next page and is null on the last. A page may have few rows or none while the cursor leads on.',
  query: journalParameters,
  result: Type.Array(journalRow),
  async answer({ of, query: asked, inTurn, reply }, parts: JournalParts) {
    const { journal, isOn } = parts;
    const query = readQuery(asked, of);
    const { page, items } = await inTurn(async () => {
      const named = query.cursor === undefined ? (await findNamed(parts, query)).slice(0, query.limit) : [];
      const known = new Set(named.map(({ seq }) => seq));
      const limit = query.limit - named.length;
      const found: JournalPage = limit === 0 ? { items: [] } : await journal.list({ ...query, limit });
      return { page: found, items: [...named, ...found.items.filter(({ seq }) => !known.has(seq))] };
    });
    const told = { limit: query.limit, next: page.next };
    return succeedWithPage(reply, items.map(rowJson), told, journalNote(isOn));
  },
});

const getEntry = endpoint({
  at: 'GET',
  operationId: 'getJournalEntry',
  summary: 'Tell everything that is kept of one message: verdicts, dialogue, times, recipients',
  params: entryPath,
  result: journalEntry,
  answer: async ({ of, params: { id }, request }, parts: JournalParts) =>
    await showEntry(parts, request, await entryNamed(parts, id, of)),
});

const journalPlace = { path: '/email/sending/journal', tag: 'Journal' } as const;

/** Where the endpoints at one entry are, of an account and of any. */
export const entryPlace = { ...journalPlace, path: `${journalPlace.path}/:id`, suffix: 'OfAny' };

/** The endpoints that list the journal and show an entry. */
export function journalEndpoints(parts: JournalParts): V4Plugin {
  return (app) => {
    endpointsOfBoth(journalPlace, parts, [listJournal])(app);
    endpointsOfBoth(entryPlace, parts, [getEntry])(app);
  };
}

// GET .../email/sending/journal and .../journal/{id}: every message that was handed in, and why it was refused (D53a).

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Account } from '../../accounts/account.ts';
import type { EventStore } from '../../events/event-store.ts';
import { type Fault, Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../../http/v4-app.ts';
import type { Journal, JournalEntry, JournalPage, JournalQuery } from '../../journal/journal.ts';
import type { JournalOutcome } from '../../journal/journal-row.ts';
import { readHistory } from '../events/find-messages.ts';
import { createSearchTurns, type SearchTurns } from '../events/search-turns.ts';
import { accountPath, pageInfo, readTime } from '../schemas.ts';
import { entryJson } from './entry-json.ts';
import { findNamed } from './find-named.ts';
import { journalNote, journalOff } from './journal-off.ts';
import { rowJson } from './row-json.ts';
import { entryOfAccount, entryOfAny, journalEntry, journalParameters, journalRow, usualRows } from './schemas.ts';

/** What the endpoints are made from. */
export interface JournalParts {
  readonly journal: Pick<Journal, 'list' | 'find' | 'content' | 'rows'>;
  /** `journal.enabled`. */
  readonly isOn: boolean;
  readonly events: Pick<EventStore, 'read' | 'search'>;
  /** The account of a name, as it is configured now. */
  readonly account: (name: string) => Account | undefined;
}

/** The parameters of the list as they come. */
interface Asked {
  readonly cursor?: string;
  readonly per_page?: string;
  readonly limit?: string;
  readonly outcome?: string;
  readonly credential?: string;
  readonly client?: string;
  readonly code?: string;
  readonly field?: string;
  readonly search?: string;
  readonly q?: string;
  readonly since?: string;
  readonly until?: string;
}

/** Reads a time. @throws Refusal */
function timeOf(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  const read = readTime(text, name);
  if (typeof read === 'number') return read;
  throw new Refusal([{ token: 'E_VALIDATION_ERROR', message: read.message }]);
}

/** Reads the parameters of the list. @throws Refusal for a time that is none */
function readQuery(asked: Asked, account: string | undefined): JournalQuery {
  const { cursor, outcome, credential, client, code, field } = asked;
  return {
    ...{ account, credential, client, code, field, text: asked.search ?? asked.q },
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the schema has judged it
    outcome: outcome as JournalOutcome | undefined,
    since: timeOf(asked.since, 'since'),
    until: timeOf(asked.until, 'until'),
    ...(cursor === undefined ? {} : { cursor: Number(cursor) }),
    limit: Number(asked.per_page ?? asked.limit ?? usualRows),
  };
}

/** The refusal of an id that is nobody's, or another account's. */
function noSuchEntry(isOn: boolean): Fault {
  const message = 'There is no such entry in the journal: it is too old, or it is another account’s';
  return { token: 'E_NOT_FOUND', message: isOn ? message : `${message}. ${journalOff}` };
}

/** Finds an entry. @param account its name; undefined: any. @throws Refusal */
export async function entryNamed(
  { journal, isOn }: { readonly journal: Pick<Journal, 'find'>; readonly isOn: boolean },
  id: string,
  account: string | undefined,
): Promise<JournalEntry> {
  const entry = await journal.find(id.toLowerCase(), account);
  if (!entry) throw new Refusal([noSuchEntry(isOn)]);
  return entry;
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}

async function showEntry(parts: JournalParts, request: FastifyRequest, entry: JournalEntry) {
  const account = parts.account(entry.account);
  const isAccepted = entry.outcome !== 'refused';
  const found = isAccepted ? await readHistory(parts.events, { account: entry.account, message: entry.id }) : undefined;
  return entryJson({
    entry,
    content: await parts.journal.content(entry.seq),
    credential: account?.credentials.get(entry.facts.credential ?? ''),
    sendingDomains: account?.sendingDomains.map(({ name }) => name) ?? [],
    history: found?.history,
    path: pathOf(request),
  });
}

const description =
  '`result_info.cursor` leads to the next page and is null on the last. A page may have few rows or none while the cursor leads on.';

/** Registers the list. @param scope whose account it is of; `admin`: of all */
function listJournal(app: V4App, parts: JournalParts & { readonly inTurn: SearchTurns }): void {
  const { journal, isOn, inTurn } = parts;
  const answer = async (asked: Asked, account: string | undefined) => {
    const query = readQuery(asked, account);
    const { page, items } = await inTurn(account ?? '*', async () => {
      const named = query.cursor === undefined ? (await findNamed(parts, query)).slice(0, query.limit) : [];
      const known = new Set(named.map(({ seq }) => seq));
      const limit = query.limit - named.length;
      const found: JournalPage = limit === 0 ? { items: [] } : await journal.list({ ...query, limit });
      return { page: found, items: [...named, ...found.items.filter(({ seq }) => !known.has(seq))] };
    });
    const info = pageInfo(items.length, query.limit, page.next);
    // `cursors` is the older name of `cursor`, for one version more.
    const result_info = { ...info, cursors: { after: info.cursor } };
    return { rows: items.map(rowJson), info: { result_info, ...journalNote(isOn) } };
  };
  const schema = {
    summary: 'List every message that was handed in, accepted or refused, newest first',
    description,
    tags: ['Journal'],
    querystring: journalParameters,
    response: { 200: Type.Array(journalRow) },
  };
  app.get(
    '/accounts/:account_id/email/sending/journal',
    { config: { scope: 'console:read' }, schema: { ...schema, operationId: 'listJournal', params: accountPath } },
    async (request, reply) => {
      const { rows, info } = await answer(request.query, submitterOf(request).account.name);
      return succeed(reply, rows, info);
    },
  );
  app.get(
    '/email/sending/journal',
    { config: { scope: 'admin' }, schema: { ...schema, operationId: 'listJournalOfAll' } },
    async (request, reply) => {
      const { rows, info } = await answer(request.query, undefined);
      return succeed(reply, rows, info);
    },
  );
}

function getEntry(app: V4App, parts: JournalParts): void {
  const schema = {
    summary: 'Tell everything that is kept of one message: verdicts, dialogue, times, recipients',
    tags: ['Journal'],
    response: { 200: journalEntry },
  };
  app.get(
    '/accounts/:account_id/email/sending/journal/:id',
    {
      config: { scope: 'console:read' },
      schema: { ...schema, operationId: 'getJournalEntry', params: entryOfAccount },
    },
    async (request, reply) => {
      const entry = await entryNamed(parts, request.params.id, submitterOf(request).account.name);
      return succeed(reply, await showEntry(parts, request, entry));
    },
  );
  app.get(
    '/email/sending/journal/:id',
    { config: { scope: 'admin' }, schema: { ...schema, operationId: 'getJournalEntryOfAny', params: entryOfAny } },
    async (request, reply) => {
      const entry = await entryNamed(parts, request.params.id, undefined);
      return succeed(reply, await showEntry(parts, request, entry));
    },
  );
}

/** The endpoints that list the journal and show an entry. */
export function journalEndpoints(parts: JournalParts): V4Plugin {
  const inTurn = createSearchTurns();
  return (app) => {
    listJournal(app, { ...parts, inTurn });
    getEntry(app, parts);
  };
}

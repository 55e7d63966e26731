// The words of a search, and whether a row has them: alike before and after it is in SQLite's index.

import type { JournalItem, JournalQuery } from '../journal.ts';
import { type JournalFacts, outcomeNumbers } from '../journal-row.ts';

/** Words of one search at most, and characters of each. */
const mostWords = 8;
const wordCharacters = 64;
/** The last word of a search may be the beginning of one, if it has so many characters. */
const prefixCharacters = 3;

/** Words without accents, in lower case, as SQLite's tokenizer compares them. */
function wordsOf(text: string): string[] {
  const folded = text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return folded.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
}

/** The words of a search; empty where the text has no letter or digit. */
export function searchedWords(text: string): readonly string[] {
  return wordsOf(text)
    .slice(0, mostWords)
    .map((word) => word.slice(0, wordCharacters));
}

function mayBeBeginning(words: readonly string[], index: number): boolean {
  return index === words.length - 1 && (words[index]?.length ?? 0) >= prefixCharacters;
}

function asciiLower(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function textWords({ subject, sender, mailer, recipients }: JournalFacts): readonly string[] {
  return wordsOf([subject, sender, mailer, ...recipients].filter((text) => text !== undefined).join(' '));
}

function hasWords({ facts }: JournalItem, words: readonly string[]): boolean {
  const own = textWords(facts);
  return words.every((word, index) =>
    mayBeBeginning(words, index) ? own.some((one) => one.startsWith(word)) : own.includes(word),
  );
}

/** What a row can be found by. */
type Filter = readonly [
  inQuery: 'credential' | 'client' | 'code' | 'field' | 'shadow',
  letter: string,
  of: (facts: JournalFacts) => readonly (string | undefined)[],
];
const filters: readonly Filter[] = [
  ['credential', 'c', ({ credential }) => [credential]],
  ['client', 'i', ({ client }) => [client]],
  ['code', 'e', ({ codes = [] }) => codes],
  ['field', 'f', ({ fields = [] }) => fields.map(asciiLower)],
  ['shadow', 'w', ({ shadow }) => (shadow ? ['true'] : [])],
];

/** The filters that a query has, each with its value. */
function asked(query: JournalQuery) {
  return filters.flatMap(([name, letter, of]) => {
    // What came to no shadow listener has no key of its own.
    const value = name === 'shadow' ? (query.shadow ? 'true' : undefined) : query[name];
    return value === undefined ? [] : [{ letter, of, value: name === 'field' ? asciiLower(value) : value }];
  });
}

/** Whether a row is wanted. @param words `searchedWords` of the query's text; undefined where it has none */
export function isWanted(item: JournalItem, query: JournalQuery, words: readonly string[] | undefined): boolean {
  const { account, outcome, since, until, shadow } = query;
  const { facts, at } = item;
  if (account !== undefined && item.account !== account) return false;
  if (outcome !== undefined && item.outcome !== outcome) return false;
  if (shadow === false && facts.shadow) return false;
  if (at < (since ?? Number.NEGATIVE_INFINITY) || at >= (until ?? Number.POSITIVE_INFINITY)) return false;
  if (!asked(query).every(({ of, value }) => of(facts).includes(value))) return false;
  return words === undefined || hasWords(item, words);
}

/** Characters of a value that are a key. */
const keyCharacters = 100;

/** SQL that makes the key of a value: a letter and the value's octets in hex, so that no value is two words. */
function keySql(letter: string, value: string): string {
  return `'k${letter}' || hex(substr(${value}, 1, ${keyCharacters}))`;
}

function keyOf(letter: string, value: string): string {
  // SQLite's `substr` ends before a NUL.
  const [...characters] = value.split('\0', 1)[0] ?? '';
  const octets = Buffer.from(characters.slice(0, keyCharacters).join(''));
  return `k${letter}${octets.toString('hex')}`;
}

function optionalKey(letter: string, path: string): string {
  return `coalesce(' ' || ${keySql(letter, `json_extract(facts, '$.${path}')`)}, '')`;
}

function listKeys(letter: string, path: string, value: string): string {
  // Most rows have no such list, and to go through one costs more than to look for it.
  return `CASE WHEN json_extract(facts, '$.${path}') IS NULL THEN '' ELSE coalesce((SELECT group_concat(' ' ||
    ${keySql(letter, value)}, '') FROM json_each(facts, '$.${path}')), '') END`;
}

const keys = [
  keySql('a', 'account'),
  `CASE outcome WHEN ${outcomeNumbers.refused} THEN ' kr' ELSE ' ks' END`,
  optionalKey('c', 'credential'),
  optionalKey('i', 'client'),
  listKeys('e', 'codes', 'value'),
  listKeys('f', 'fields', 'lower(value)'),
  `CASE WHEN json_extract(facts, '$.shadow') THEN ' ${keyOf('w', 'true')}' ELSE '' END`,
].join(' || ');

const words = ['subject', 'sender', 'mailer', 'recipients']
  .map((path) => `coalesce(json_extract(facts, '$.${path}'), '')`)
  .join(" || ' ' || ");

/** Fills the index of the rows behind $1 up to $2. Those whose facts are no JSON are found by their account and outcome alone. */
export const fillWords = `INSERT INTO journal_words (rowid, keys, words)
  WITH rows AS MATERIALIZED (SELECT seq, account, outcome, iif(json_valid(facts), facts, '{}') AS facts
    FROM journal WHERE seq > $1 AND seq <= $2)
  SELECT seq, ${keys}, ${words} FROM rows WHERE true`;

/** The question of a query to the index; undefined where every row fits, but for what the index does not know. */
export function matchOf(query: JournalQuery, searched: readonly string[] | undefined): string | undefined {
  const { account, outcome } = query;
  const wanted: string[] = [];
  const key = (text: string): void => void wanted.push(`keys:"${text}"`);
  if (account !== undefined) key(keyOf('a', account));
  if (outcome !== undefined) key(outcome === 'refused' ? 'kr' : 'ks');
  for (const { letter, value } of asked(query)) key(keyOf(letter, value));
  const own = searched ?? [];
  own.forEach((word, index) => wanted.push(`words:"${word}"${mayBeBeginning(own, index) ? '*' : ''}`));
  if (wanted.length === 0) return undefined;
  const all = wanted.join(' AND ');
  return query.shadow === false ? `(${all}) NOT keys:"${keyOf('w', 'true')}"` : all;
}

/** The codes and headers of a row, and its other filters, as one text with blanks around each. */
export function keyWords(facts: JournalFacts): string {
  const words = filters.flatMap(([, letter, of]) => of(facts).map((value = '') => `${letter}${value}`));
  return ` ${words.map((word) => word.replaceAll(/\s/g, '_')).join(' ')} `;
}

/** What of `keyWords` a query wants. */
export function keysWanted(query: JournalQuery): readonly string[] {
  return asked(query).map(({ letter, value }) => ` ${`${letter}${value}`.replaceAll(/\s/g, '_')} `);
}

/** The words of a row that are searched, as one text with blanks around each. */
export function searchText(facts: JournalFacts): string {
  return ` ${textWords(facts).join(' ')} `;
}

/** What of `searchText` a search wants. @param searched `searchedWords` */
export function wordsWanted(searched: readonly string[]): readonly string[] {
  return searched.map((word, index) => (mayBeBeginning(searched, index) ? ` ${word}` : ` ${word} `));
}

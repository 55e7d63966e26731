// The Error Page (D65): one HTML document for every error, with tokens that stand for what is known of the one at hand.

import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { escapeHtml } from '../../web/http/page/html-page.ts';
import type { EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../errors/catalogue.ts';
import type { EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { customHeaders } from './custom-error-rules.ts';

/** Octets of a page, as UTF-8. */
export const maxPageBytes = 1_500_000;
/** Tokens in one page. Without a bound a page of error boxes would grow to a hundred times its size with each answer. */
const maxPageTokens = 1000;

const tokenForm = /::(?:RAY_ID|CLIENT_IP|ERROR_BOX)::/g;

function errorBox({ error, rayId }: EdgeOccurrence): string {
  const title = escapeHtml(`Error ${error.code}: ${error.shortName}`);
  return (
    '<div class="error-box" role="alert" style="border:1px solid;border-radius:.5em;padding:1em">' +
    `<p><strong>${title}</strong></p><p>${escapeHtml(error.detail)}</p><p>Ray ID: <code>${escapeHtml(rayId)}</code></p></div>`
  );
}

const tokenValues = {
  '::RAY_ID::': ({ rayId }) => escapeHtml(rayId),
  '::CLIENT_IP::': (_, { clientAddress }) => escapeHtml(clientAddress),
  '::ERROR_BOX::': (occurrence) => errorBox(occurrence),
} as const satisfies Record<string, (occurrence: EdgeOccurrence, request: ErrorRequest) => string>;

type Token = keyof typeof tokenValues;

function isToken(text: string): text is Token {
  return Object.hasOwn(tokenValues, text);
}

/** What is wrong with a page's HTML, reading behind its name; undefined where nothing is. */
export function pageFault(html: string): string | undefined {
  const octets = Buffer.byteLength(html);
  if (octets === 0) return 'is empty, want an HTML document';
  if (octets > maxPageBytes) return `is ${octets} octets, want at most ${maxPageBytes}`;
  const tokens = html.match(tokenForm)?.length ?? 0;
  return tokens > maxPageTokens ? `has ${tokens} tokens such as ::RAY_ID::, want at most ${maxPageTokens}` : undefined;
}

/** A page that can be served. */
export interface CompiledPage {
  /** The document as it was given. */
  readonly html: () => string;
  readonly answer: (occurrence: EdgeOccurrence, request: ErrorRequest) => ErrorAnswer;
}

/** Prepares a page: it is taken apart at its tokens once, so that no value is ever looked through for tokens. */
export function compilePage(html: string): CompiledPage {
  const parts: (Buffer | Token)[] = [];
  let at = 0;
  const addText = (end: number): void => {
    if (end > at) parts.push(Buffer.from(html.slice(at, end)));
  };
  for (const { 0: token, index } of html.matchAll(tokenForm)) {
    addText(index);
    if (isToken(token)) parts.push(token);
    at = index + token.length;
  }
  addText(html.length);
  return {
    html: () => parts.map((part) => part.toString()).join(''),
    answer(occurrence, request) {
      // Each value is made once, however often the page has it.
      const values = new Map<Token, Buffer>();
      const valueOf = (token: Token): Buffer => {
        const value = values.get(token) ?? Buffer.from(tokenValues[token](occurrence, request));
        values.set(token, value);
        return value;
      };
      // The page's own text is the same memory in every answer, since slow clients may hold many answers at a time.
      const body = parts.map((part) => (typeof part === 'string' ? valueOf(part) : part));
      const headers = customHeaders('text/html; charset=utf-8', occurrence);
      return { status: occurrence.error.status, headers, body };
    },
  };
}

/** Reads a page, of a regular file whose size was checked. @returns the HTML, or what is wrong, with the name of the file */
export function readErrorPage(file: string): { readonly html: string } | { readonly problem: string } {
  try {
    const stat = statSync(file);
    if (!stat.isFile()) return { problem: `"${file}" is no file` };
    if (stat.size > maxPageBytes) {
      return { problem: `"${file}" is ${stat.size} octets, want at most ${maxPageBytes}` };
    }
    const octets = readFileSync(file);
    if (!isUtf8(octets)) return { problem: `"${file}" is not UTF-8` };
    const html = octets.toString();
    const fault = pageFault(html);
    return fault === undefined ? { html } : { problem: `"${file}" ${fault}` };
  } catch (cause) {
    const reason = errorCode(cause) === 'ENOENT' ? 'there is no such file' : errorMessage(cause);
    return { problem: `cannot read "${file}": ${reason}` };
  }
}

/** What is wrong with the pages' files that a configuration names, one line each; every file is read. */
export function errorPageFaults({
  zones,
  accounts,
}: {
  readonly zones: readonly Pick<EdgeZone, 'name' | 'customErrors'>[];
  readonly accounts: readonly Pick<EdgeAccountSlice, 'id' | 'customErrors'>[];
}): string[] {
  const owners = [
    ...zones.map(({ name, customErrors }) => ({ path: `zone ${name}`, file: customErrors?.errorPage?.file })),
    ...accounts.map(({ id, customErrors }) => ({ path: `account ${id}`, file: customErrors?.errorPage?.file })),
  ];
  return owners.flatMap(({ path, file }) => {
    if (file === undefined) return [];
    const page = readErrorPage(file);
    return 'problem' in page ? [`${path}: customErrors.errorPage.file: ${page.problem}`] : [];
  });
}

// The process that reads the content of messages, which strangers wrote; all it does is answer questions.

import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { type ParsedMail, simpleParser } from 'mailparser';
import { answerQuestions } from '../../../base/asked-process.ts';
import { decodeWords } from '../../../mail/header/header-text.ts';

/** Characters of text and of HTML, of a header's value, and of a name. */
const textCharacters = 1_048_576;
const valueCharacters = 4096;
const nameCharacters = 500;
/** Headers and attachments at most. */
const mostHeaders = 500;
const mostAttachments = 200;

/** A question. */
export type ContentQuestion =
  | { readonly kind: 'preview'; readonly octets: Uint8Array }
  /** `records`: the DNS records of the keys on file, each name with its text. */
  | { readonly kind: 'dkim'; readonly octets: Uint8Array; readonly records: readonly (readonly [string, string])[] };

/** The answer to a question that has one. */
export type ContentAnswer =
  | { readonly preview: Awaited<ReturnType<typeof readPreview>> }
  | { readonly signatures: Awaited<ReturnType<typeof verifyDkim>> };

function cut(text: string, most: number): string {
  return text.slice(0, most).toWellFormed();
}

async function parse(octets: Buffer): Promise<ParsedMail> {
  const plain = { skipHtmlToText: true, skipTextToHtml: true, skipImageLinks: true, skipTextLinks: true };
  try {
    return await simpleParser(octets, plain);
  } catch (thrown) {
    // mailparser stops at some bounds, and names none of them.
    const isOfParts = thrown instanceof Error && /child nodes/.test(thrown.message);
    throw isOfParts ? new Error('It has more parts than a preview shows', { cause: thrown }) : thrown;
  }
}

/**
 * Takes a message apart for people, by mailparser, within bounds: `truncated` where text, HTML or headers were cut. HTML is as it came,
 * and whoever shows it has to make it harmless.
 * @throws Error where it has more parts, header fields or octets in a header than mailparser takes
 */
async function readPreview(octets: Buffer) {
  const mail = await parse(octets);
  const { text, html, headerLines, attachments } = mail;
  const headers = headerLines.slice(0, mostHeaders).map(({ line }) => {
    const colon = line.indexOf(':');
    const value = line
      .slice(colon + 1)
      .replaceAll(/\r?\n(?=[ \t])/g, '')
      .trim();
    return {
      name: cut(line.slice(0, Math.max(colon, 0)), nameCharacters),
      value: cut(decodeWords(cut(value, valueCharacters)), valueCharacters),
    };
  });
  return {
    headers,
    text: text === undefined ? null : cut(text, textCharacters),
    html: html === false || html === undefined ? null : cut(html, textCharacters),
    truncated:
      (text?.length ?? 0) > textCharacters ||
      (html ? html.length : 0) > textCharacters ||
      headerLines.length > mostHeaders ||
      attachments.length > mostAttachments,
    attachments: attachments
      .slice(0, mostAttachments)
      .map(({ filename, contentType, size, contentDisposition, cid }) => ({
        filename: filename === undefined ? null : cut(filename, nameCharacters),
        type: cut(contentType, nameCharacters),
        size,
        inline: contentDisposition === 'inline',
        content_id: cid === undefined ? null : cut(cid, nameCharacters),
      })),
  };
}

function short(text: unknown): string {
  return typeof text === 'string' ? cut(text, nameCharacters) : '';
}

/** Verifies each signature by mailauth with the keys on file, without DNS. Results are those of RFC 8601 §2.7.1. */
async function verifyDkim(octets: Buffer, records: readonly (readonly [string, string])[]) {
  const known = new Map(records);
  const resolver = (name: string): Promise<string[][]> => {
    const text = known.get(name.toLowerCase());
    if (text !== undefined) return Promise.resolve([[text]]);
    return Promise.reject(Object.assign(new Error(`There is no key on file for ${name}`), { code: 'ENOTFOUND' }));
  };
  const { results } = await dkimVerify(octets, { resolver });
  return results.map(({ signingDomain, selector, algo, status, signingHeaders }) => ({
    domain: short(signingDomain),
    selector: short(selector),
    algorithm: short(algo),
    result: short(status.result),
    reason: status.result === 'pass' ? null : short(status.comment),
    signed_headers: short(signingHeaders?.keys),
  }));
}

answerQuestions(async (question: ContentQuestion): Promise<ContentAnswer> => {
  const { buffer, byteOffset, byteLength } = question.octets;
  const octets = Buffer.from(buffer, byteOffset, byteLength);
  if (question.kind === 'preview') return { preview: await readPreview(octets) };
  return { signatures: await verifyDkim(octets, question.records) };
});

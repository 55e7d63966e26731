// Where a domain wants its reports: the TXT record of `_smtp._tls.DOMAIN` (RFC 8460 §3).

import { isIP } from 'node:net';
import { asciiDomain, splitMailbox } from '../mail/address/domain.ts';

/** One place. `uri` is as the record has it. */
export type ReportDestination =
  | { readonly kind: 'mailto'; readonly uri: string; readonly address: string }
  | { readonly kind: 'https'; readonly uri: string; readonly url: URL };

/** Places that are used of one record; the others are passed over. */
const mostDestinations = 5;
/** Records of this length may have been cut when they were read (base/dns). */
const mostRecord = 1000;
const mostUri = 500;

const version = 'v=TLSRPTv1';
/** ABNF of RFC 8460 §3: after the version fields of `name=value`, each behind `;`; one more `;` may stand at the end. */
const field = /^[ \t]*([A-Za-z0-9][A-Za-z0-9_.-]{0,30})=([\x21-\x3a\x3c\x3e-\x7e, \t=]*?)[ \t]*$/;
const mailbox = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[^@]+$/;

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function mailtoOf(uri: string): ReportDestination | undefined {
  // Fields of a header (`?subject=`) are somebody else's words in our mail.
  const address = decoded(uri.slice('mailto:'.length).replace(/\?.*$/, '')) ?? '';
  if (address.length > 254 || !mailbox.test(address)) return undefined;
  const { localPart, domain = '' } = splitMailbox(address);
  const ascii = asciiDomain(domain);
  if (ascii === undefined || isIP(ascii) !== 0 || localPart.length > 64) return undefined;
  return { kind: 'mailto', uri, address: `${localPart}@${ascii}` };
}

function httpsOf(uri: string): ReportDestination | undefined {
  const url = URL.parse(uri);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || url.port === '0') return undefined;
  url.hash = '';
  return { kind: 'https', uri, url };
}

function destinationOf(text: string): ReportDestination | undefined {
  const uri = text.replace(/^[ \t]+|[ \t]+$/g, '');
  if (uri.length > mostUri || /[ \t!]/.test(uri)) return undefined;
  if (/^mailto:/i.test(uri)) return mailtoOf(uri);
  return /^https:\/\//i.test(uri) ? httpsOf(uri) : undefined;
}

/**
 * Reads the TXT records of `_smtp._tls.DOMAIN`.
 * @returns where reports go; nothing where the domain asks for none, or in a way that RFC 8460 does not know
 */
export function destinationsOf(texts: readonly string[]): readonly ReportDestination[] {
  const records = texts.filter((text) => text.startsWith(version));
  const [record = ''] = records;
  if (records.length !== 1 || record.length > mostRecord) return [];
  const [rest, ...parts] = record.slice(version.length).split(';');
  if (rest?.trim() !== '') return [];
  if (parts.at(-1)?.trim() === '') parts.pop();
  const fields = parts.map((part) => field.exec(part));
  const ruas = fields.flatMap((one) => (one?.[1] === 'rua' ? [one[2] ?? ''] : []));
  if (fields.includes(null) || ruas.length !== 1) return [];
  const all = (ruas[0] ?? '').split(',').flatMap((text) => destinationOf(text) ?? []);
  return [...new Map(all.map((one) => [one.uri, one])).values()].slice(0, mostDestinations);
}

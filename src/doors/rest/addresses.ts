// Reads the address forms of the REST API (D43) into mailboxes, and writes mailboxes as the text of a header field.

import { parseAddressList } from '../../mail/address/address.ts';
import { readPath } from '../../mail/address/path.ts';
import { atext, quotedString } from '../../mail/header/quoted-text.ts';
import type { Violation } from '../../pipeline/submit.ts';
import { pointerStep, quoted } from '../../web/http/json/cut-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../web/http/json/json-reader.ts';
import { control, holdsControl, invalid } from './faults.ts';

/** A mailbox of a request. */
export interface ApiMailbox {
  /** The address as it stands in an envelope: its domain is an A-label in lower case. */
  readonly address: string;
  readonly name?: string;
  /** Where it stands in the body. */
  readonly pointer: string;
}

const longestName = 998;
/** Octets of an address (RFC 5321 §4.5.3.1.3). */
const longestAddress = 254;
/** A longer text is not looked at. Characters: enough for an address in its longest spelling and a name. */
const longestText = 2 * longestName;

type OneMailbox = ApiMailbox | { readonly reason: string; readonly at?: string };

/** Reads an address without a name; a missing domain is completed with the credential's (D4b). */
function readAddress(text: string, defaultDomain: string | undefined): string | { readonly reason: string } {
  if (text === '') return { reason: 'is empty' };
  const path = text.startsWith('<') || text.length > longestText ? undefined : readPath(text, 0);
  if (!path || path.end !== text.length) {
    if (text.length <= longestAddress) return { reason: `is no address: ${quoted(text)}` };
    return { reason: `has ${text.length} characters, an address has at most ${longestAddress}` };
  }
  if (path.domain !== undefined) return path.mailbox;
  if (defaultDomain === undefined) return { reason: `has no domain: ${quoted(text)}` };
  return `${path.mailbox}@${defaultDomain}`;
}

/** Reads `a@b` or `Name <a@b>`. */
function readText(text: string, pointer: string, defaultDomain: string | undefined): OneMailbox {
  if (text.length > longestName + 260) return { reason: `has ${text.length} characters` };
  if (control.test(text)) return { reason: holdsControl };
  const list = parseAddressList(text);
  if (!list.ok) return { reason: `is no address: ${list.reason}; got ${quoted(text)}` };
  const [first, second] = list.addresses;
  if (!first) return { reason: 'is empty' };
  if (second)
    return { reason: `holds several addresses: give an array, and quote a name with a comma; got ${quoted(text)}` };
  if (first.kind === 'group') return { reason: `is a group: ${quoted(text)}` };
  const { localPart, domain, displayName } = first;
  const address = readAddress(domain === undefined ? localPart : `${localPart}@${domain}`, defaultDomain);
  if (typeof address !== 'string') return address;
  const name = displayName?.trim() ?? '';
  if (control.test(name) || !name.isWellFormed()) return { reason: 'has a control character in its name' };
  return { address, pointer, ...(name === '' ? {} : { name }) };
}

/** Reads `{address, name}`. */
function readObject(value: JsonObject, pointer: string, defaultDomain: string | undefined): OneMailbox {
  const unknown = Object.keys(value).find((key) => key !== 'address' && key !== 'name');
  if (unknown !== undefined) {
    const reason = `has the unknown field ${quoted(unknown)}; there are address, name`;
    return { reason, at: pointerStep(unknown) };
  }
  const { address: given, name: givenName } = value;
  if (typeof given !== 'string') return { reason: 'needs an address that is a string', at: '/address' };
  if (givenName !== undefined && typeof givenName !== 'string')
    return { reason: 'has a name that is no string', at: '/name' };
  if (given.length <= longestText && control.test(given)) return { reason: holdsControl, at: '/address' };
  const address = readAddress(given, defaultDomain);
  if (typeof address !== 'string') return { ...address, at: '/address' };
  const name = givenName?.trim() ?? '';
  if (name.length > longestName)
    return { reason: `has ${name.length} characters, at most ${longestName}`, at: '/name' };
  if (control.test(name)) return { reason: holdsControl, at: '/name' };
  return { address, pointer, ...(name === '' ? {} : { name }) };
}

/** Counts the entries of a field of addresses and the characters of their texts, whether they can be read or not. */
export function sizeOfAddresses(value: JsonValue | undefined) {
  const items: readonly (JsonValue | undefined)[] = Array.isArray(value) ? value : [value];
  let characters = 0;
  for (const item of items) {
    for (const text of isJsonObject(item) ? [item['address'], item['name']] : [item]) {
      if (typeof text === 'string') characters += text.length;
    }
  }
  return { entries: value === undefined ? 0 : items.length, characters };
}

/** Reads a field of addresses in any form. @param field its name: `to` @returns its mailboxes, and its faults with their places */
export function readAddresses(
  value: JsonValue | undefined,
  field: string,
  defaultDomain: string | undefined,
): { readonly mailboxes: readonly ApiMailbox[]; readonly violations: readonly Violation[] } {
  if (value === undefined) return { mailboxes: [], violations: [] };
  const isList = Array.isArray(value);
  const items: readonly JsonValue[] = isList ? value : [value];
  const mailboxes: ApiMailbox[] = [];
  const violations: Violation[] = [];
  items.forEach((item, index) => {
    const pointer = isList ? `/${field}/${index}` : `/${field}`;
    const read =
      typeof item === 'string'
        ? readText(item, pointer, defaultDomain)
        : isJsonObject(item)
          ? readObject(item, pointer, defaultDomain)
          : { reason: 'must be an address: "a@b", "Name <a@b>" or {"address", "name"}' };
    if ('address' in read) mailboxes.push(read);
    else violations.push(invalid(`${pointer}${read.at ?? ''}`, read.reason));
  });
  return { mailboxes, violations };
}

/** Reads an address that is a string without a name, as MAIL FROM and RCPT TO have it (D46). */
export function readPathAddress(text: string, defaultDomain: string | undefined): ReturnType<typeof readAddress> {
  if (control.test(text)) return { reason: holdsControl };
  return readAddress(text.startsWith('<') && text.endsWith('>') ? text.slice(1, -1) : text, defaultDomain);
}

// RFC 5322 §3.2.3: words made of these characters need no quotation marks.
const phrase = new RegExp(`^[${atext}]+(?: [${atext}]+)*$`);

/** Writes a display name, quoted where it has to be. Text that looks like an encoded word (RFC 2047) is quoted too. */
function writeName(name: string): string {
  return phrase.test(name) && !name.includes('=?') ? name : quotedString(name);
}

/** Writes mailboxes as the text of From, To, Cc or Reply-To; what is not ASCII is encoded when fields are written. */
export function writeAddresses(mailboxes: readonly ApiMailbox[]): string {
  return mailboxes
    .map(({ address, name }) => (name === undefined ? address : `${writeName(name)} <${address}>`))
    .join(', ');
}

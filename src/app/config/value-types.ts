// The types of values in the configuration. The `want` of each is what an error says is expected.

import { isIP } from 'node:net';
import iconv from 'iconv-lite';
import type { TOptional, TProperties, TSchema } from 'typebox';
import { isDay } from '../../accounts/observe-period.ts';
import { Type } from '../../base/schema/schema-type.ts';
import { readPattern, readTarget } from '../../delivery/staging/recipient-rules.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import { isPortRange, parseListen, parseNetwork } from './addresses.ts';

/** A text that passes a test. Errors show `want`, never a `secret` text. `digits` alone want quotes, or YAML takes them for a number. */
function text(
  want: string,
  test: (value: string) => boolean,
  traits: { readonly secret?: boolean; readonly digits?: boolean } = {},
) {
  return Type.Refine(Type.String({ want, ...traits }), test, () => want);
}

/** An object of just these keys. A `secret` one is never shown in an error, whatever stands in its place. */
export function object<const P extends TProperties>(properties: P, secret = false) {
  return Type.Object(properties, { additionalProperties: false, want: 'a mapping', secret });
}

/** An object of just these keys, each of which may be absent. */
export function partial<const P extends TProperties>(properties: P) {
  const optional = Object.fromEntries(Object.entries(properties).map(([key, of]) => [key, Type.Optional(of)]));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each key is there, as just this
  return object(optional as { readonly [Key in keyof P]: TOptional<P[Key]> });
}

/** A list. One that is gone through for each message, connection or request has a bound. */
export function list<T extends TSchema>(
  items: T,
  options: { readonly minItems?: number; readonly maxItems?: number } = {},
) {
  const { minItems = 0, maxItems } = options;
  const unbounded = minItems > 0 ? 'a list that is not empty' : 'a list';
  const bounded = minItems > 0 ? `a list of ${minItems} to ${maxItems}` : `a list of at most ${maxItems}`;
  return Type.Array(items, { want: maxItems === undefined ? unbounded : bounded, ...options });
}

/** One of a few words. */
export function choice<const Values extends string[]>(...values: Values) {
  return Type.Enum<Values>(values, { want: values.length === 1 ? values[0] : `one of ${values.join(', ')}` });
}

/** A whole number within bounds. */
export function integer(minimum: number, maximum: number, unit = '') {
  const want = `a whole number${unit ? ` of ${unit}` : ''}, ${minimum} to ${maximum}`;
  return Type.Integer({ minimum, maximum, want });
}

/** A number within bounds. */
export function number(minimum: number, maximum: number) {
  return Type.Number({ minimum, maximum, want: `a number, ${minimum} to ${maximum}` });
}

const day = 86_400;

export const boolean = Type.Boolean({ want: 'true or false' });
export const seconds = integer(1, 7 * day, 'seconds');
export const octets = integer(1024, 1_073_741_824, 'octets');
/** Processes of one server at most. */
export const mostProcesses = 64;
/** How many processes a server has. */
export const processes = Type.Union([integer(1, mostProcesses), Type.Enum(['auto'])], {
  want: `a whole number, 1 to ${mostProcesses}, or auto`,
});
/** An amount of memory: 1 MiB to 1 TiB. */
export const memory = integer(1_048_576, 1_099_511_627_776, 'octets');
/** Any text of one to 1,024 characters without line ends or other controls. */
export const words = text('a text', (value) => /^[^\p{Cc}]{1,1024}$/u.test(value), { digits: true });
/** A text of any size and content. */
export const content = Type.String({ want: 'a text', digits: true });
export const filePath = text('a path', (value) => value !== '' && !value.includes('\0'));
export const listen = text(
  'an IP address and a port, such as 127.0.0.1:2587 or [::1]:2587 (port 0: a free one)',
  (value) => parseListen(value) !== undefined,
);
/** `listen`, or '' for off. */
export const listenOrOff = text(
  'an IP address and a port, such as 127.0.0.1:8443, or "" for none',
  (value) => value === '' || parseListen(value) !== undefined,
);
export const ipAddress = text('an IP address', (value) => isIP(value) !== 0);
export const nameServer = text(
  'the address of a name server, with a port or without, such as 127.0.0.1 or [::1]:5353',
  (value) => isIP(value) !== 0 || (parseListen(value)?.port ?? 0) > 0,
);
export const network = text(
  'an IP address or a network, such as 192.0.2.0/24',
  (value) => parseNetwork(value) !== undefined,
);
export const networkOrPlace = text(
  'an IP address and a port, such as 127.0.0.1:2587 or [::1]:2587, or a network, such as 192.0.2.0/24',
  (value) => (parseListen(value)?.port ?? 0) > 0 || parseNetwork(value) !== undefined,
);
export const domain = text('a domain name', (value) => asciiDomain(value) !== undefined);
/** A zone's host name, or `*`. */
export const domainOrAny = text('a domain name or "*"', (value) => value === '*' || asciiDomain(value) !== undefined);
export const hostOrAddress = text(
  'a host name or an IP address',
  (value) => isIP(value) !== 0 || asciiDomain(value) !== undefined,
);
export const portRange = Type.Union([integer(1, 65_535), text('a range of ports', isPortRange)], {
  want: 'a port or an ascending range of ports, such as 22 or 1000-2000',
});
export const portOfTransport = text('a port with its transport, such as tcp/6000-6063 or udp/1900', (value) => {
  const slash = value.indexOf('/');
  return ['tcp', 'udp'].includes(value.slice(0, slash)) && isPortRange(value.slice(slash + 1));
});
/** D99: a string, never the number that bare digits would be. */
export const hexId = text('32 hexadecimal digits', (value) => /^[0-9a-f]{32}$/i.test(value), { digits: true });
export const uuid = text('a UUID', (value) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value));
/** D93. */
export const accountName = text(
  'a name of a-z, 0-9 and -, beginning with a letter, at most 63 characters, other than 32 hexadecimal digits',
  (value) => /^[a-z][a-z0-9-]{0,62}$/.test(value) && !/^[0-9a-f]{32}$/.test(value),
);
/** An account where it is referred to: its name or its id. */
export const accountReference = text('the name or the id of an account', (value) =>
  /^(?:[a-z][a-z0-9-]{0,62}|[0-9a-f]{32})$/i.test(value),
);
/** Names of credentials, listeners, routes. */
export const entryName = text('a name of letters, digits, - and _, at most 63 characters', (value) =>
  /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/.test(value),
);
export const credentialReference = text('account/credential, such as dev/devices', (value) =>
  /^(?:[a-z][a-z0-9-]{0,62}|[0-9a-f]{32})\/[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/i.test(value),
);
/** RFC 6376 §3.1: one or more labels, joined by dots. */
export const selector = text('a DKIM selector: letters, digits and -, such as s1', (value) =>
  /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/.test(value),
);
/** RFC 5322 §2.2, at most 100 octets (D10), without the `*` that a pattern has. */
export const fieldName = text('the name of a header field', (value) => /^[!-)+-9;-~]{1,100}$/.test(value));
/** A field name, or the beginning of names with one `*` behind it; a bare `*` would mean every header (D4a). */
export const fieldPattern = text(
  'the name of a header field, or how names begin with one * at the end (X-MS-Exchange-*)',
  (value) => /^[!-)+-9;-~]{1,100}\*?$/.test(value),
);
/** A bare address with a domain (D98a). */
export const address = text('an address, such as staging@corp.example', (value) => readTarget(value) !== undefined);
/** An entry of `allowRecipients` (D98a). */
export const recipientPattern = text(
  'an address, @domain for all of a domain, or *@*.domain for all names below one',
  (value) => readPattern(value) !== undefined,
);
/** A day of the calendar, ISO 8601. */
export const isoDay = text('a day, such as 2027-01-31', isDay);
export const charset = text('a character set, such as windows-1252', (value) => iconv.encodingExists(value));
/** A variable's name. Errors do not show the value, because it may be the secret itself, put in the wrong place. */
export const variableName = text(
  'the name of an environment variable',
  (value) => /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(value),
  { secret: true },
);
export const sha256Hex = text('64 hexadecimal digits', (value) => /^[0-9a-f]{64}$/i.test(value), { secret: true });

/** A URL with one of the given schemes and a host. */
export function url(...schemes: readonly string[]) {
  return text(`a URL of ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`, (value) => {
    const parsed = URL.canParse(value) ? new URL(value) : undefined;
    return parsed !== undefined && parsed.hostname !== '' && schemes.includes(parsed.protocol.slice(0, -1));
  });
}

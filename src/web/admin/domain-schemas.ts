// The schemas of DNS records and of their checks. What makes and judges records has their types alone, so that a start loads no schema.

import { type Static, Type } from 'typebox';
import { component } from '../http/endpoint.ts';

/** One record to publish, as answers show it too. */
export const dnsRecord = component('DnsRecord', {
  purpose: Type.Enum(['dkim', 'spf', 'mx', 'dmarc']),
  type: Type.Enum(['TXT', 'MX']),
  /** Without a trailing dot. */
  name: Type.String({ example: 's1._domainkey.example.com' }),
  value: Type.String({ description: "A TXT record's strings joined; an MX record's preference and host" }),
  zone: Type.String({ description: 'The same as a line of a zone file' }),
  published_by: Type.Enum(['domain', 'platform'], { description: 'Whose name it is' }),
  remark: Type.Optional(Type.String({ description: 'What is to be done before the record is of use' })),
});

/** The type of `dnsRecord`. */
export type DnsRecord = Readonly<Static<typeof dnsRecord>>;

/** The result of the check of one record, as answers show it too. */
export const recordCheck = component('RecordCheck', {
  /** `different`: there is a record, but it does not do what is needed. `error`: DNS gave no answer. */
  state: Type.Enum(['ok', 'missing', 'different', 'error']),
  /** Those of the records of this kind. */
  found: Type.Array(Type.String(), { description: 'The values that DNS answers' }),
  detail: Type.Optional(Type.String({ description: 'In what it differs, or what failed' })),
});

/** The type of `recordCheck`. */
export type RecordCheck = Readonly<Static<typeof recordCheck>>;

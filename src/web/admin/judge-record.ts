// Judges whether the records that DNS answers serve their purpose: DKIM (RFC 6376 §3.6.1), SPF (RFC 7208 §4.5), DMARC (RFC
// 7489 §6.3), MX. A record that differs only in its form is accepted.

import { type Static, Type } from 'typebox';
import { component } from '../http/endpoint.ts';
import type { DnsRecord } from './domain-records.ts';

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

type Judge = (wanted: DnsRecord, answers: string[]) => RecordCheck;

const missing: RecordCheck = { state: 'missing', found: [] };

function different(found: string[], detail: string): RecordCheck {
  return { state: 'different', found, detail };
}

/** RFC 6376 §3.2: `name=value` between semicolons; white space does not count in what is looked at here. */
function tagsOf(text: string): ReadonlyMap<string, string> {
  return new Map(
    text.split(';').map((tag): [string, string] => {
      const equals = tag.indexOf('=');
      return equals < 0 ? [tag.trim(), ''] : [tag.slice(0, equals).trim(), tag.slice(equals + 1).replace(/\s+/g, '')];
    }),
  );
}

const judgeDkim: Judge = (wanted, answers) => {
  const [first] = answers;
  if (first === undefined) return missing;
  // RFC 6376 §3.6.2.2: with several records the result is undefined.
  if (answers.length > 1) return different(answers, 'there are several TXT records, want one');
  const tags = tagsOf(first);
  const own = tagsOf(wanted.value);
  if ((tags.get('v') ?? 'DKIM1') !== 'DKIM1') return different(answers, 'it is no DKIM key record');
  if (tags.get('p') === '') return different(answers, 'the key is revoked: p= is empty');
  if ((tags.get('k') ?? 'rsa') !== own.get('k')) return different(answers, `k= is not ${own.get('k')}`);
  if (tags.get('p') !== own.get('p')) return different(answers, 'p= is another key');
  return { state: 'ok', found: answers };
};

const judgeSpf: Judge = (wanted, answers) => {
  const found = answers.filter((text) => /^v=spf1(?: |$)/i.test(text));
  const [first] = found;
  if (first === undefined) return missing;
  // RFC 7208 §4.5: more than one is a permanent error.
  if (found.length > 1) return different(found, 'there are several SPF records, want one');
  const terms = new Set(
    first
      .toLowerCase()
      .split(/ +/)
      .map((term) => term.replace(/^\+/, '')),
  );
  const needed = wanted.value.split(' ').slice(1, -1);
  const lacking = needed.filter((term) => !terms.has(term) && !terms.has(term.replace('include:', 'redirect=')));
  return lacking.length === 0
    ? { state: 'ok', found }
    : different(found, `it does not name ${lacking.join(' ')}; right only if it names the hosts in another way`);
};

const judgeMx: Judge = (wanted, answers) => {
  if (answers.length === 0) return missing;
  const host = wanted.value.slice(wanted.value.indexOf(' ') + 1);
  const isThere = answers.some((answer) => answer.slice(answer.indexOf(' ') + 1).toLowerCase() === host);
  return isThere ? { state: 'ok', found: answers } : different(answers, `${host} is not among the hosts`);
};

const judgeDmarc: Judge = (_wanted, answers) => {
  const found = answers.filter((text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text));
  const [first] = found;
  if (first === undefined) return missing;
  // RFC 7489 §6.6.3: with several records DMARC is not applied.
  if (found.length > 1) return different(found, 'there are several DMARC records, want one');
  const tags = tagsOf(first);
  if (!/^(?:none|quarantine|reject)$/i.test(tags.get('p') ?? '')) {
    return different(found, 'p= is not none, quarantine or reject');
  }
  const strict = tags.get('adkim')?.toLowerCase() === 's';
  const detail = 'adkim=s: mail from a name below the domain fails DMARC';
  return { state: 'ok', found, ...(strict ? { detail } : {}) };
};

const judges = {
  dkim: judgeDkim,
  spf: judgeSpf,
  mx: judgeMx,
  dmarc: judgeDmarc,
} as const satisfies Record<DnsRecord['purpose'], Judge>;

/**
 * Judges what DNS answers for a record's name and type.
 * @param answers values as in `DnsRecord.value`, without trailing dots; none where the name does not exist
 */
export function judgeRecord(wanted: DnsRecord, answers: string[]): RecordCheck {
  return judges[wanted.purpose](wanted, answers);
}

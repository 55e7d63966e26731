// Reports for the kits of old servers: what some refusals would make of them.

import { type CredentialReport, Findings } from '../../src/pipeline/report/findings.ts';

/** The report of one credential after refusals with these codes, fields and messages. */
export function reportsOf(
  reasons: readonly { readonly code: string; readonly field?: string; readonly message: string }[],
): readonly CredentialReport[] {
  const findings = new Findings();
  findings.add({
    ...{ account: 'dev', credential: 'box', mailer: 'old', accepted: false, reasons },
    facts: { senderPath: 'root@box.internal', sendingDomains: ['example.com'] },
  });
  return findings.report(() => undefined);
}

/** What the estate's old server sends: a header that is refused, one that is empty, and a sender that nobody owns. */
export const estateReasons = [
  { code: 'E_HEADER_NOT_ALLOWED', field: 'User-Agent', message: 'User-Agent is not on the allowlist' },
  { code: 'E_HEADER_VALUE_INVALID', field: 'X-Old', message: 'X-Old is empty' },
  { code: 'E_SENDER_NOT_VERIFIED', message: 'box.internal is no sending domain of account dev' },
  {
    code: 'E_SENDER_NOT_VERIFIED',
    field: 'From',
    message: 'box.internal (domain of From) is not a sending domain of account dev',
  },
];

/** Values that are cured by what they say: by `stripInvalid`, and a header that is given twice, by `keepFirst`. */
export const valueReasons = [
  {
    code: 'E_HEADER_VALUE_INVALID',
    field: 'Precedence',
    message: 'Precedence must be one of bulk, list, junk; got "urgent"',
  },
  {
    code: 'E_HEADER_VALUE_TOO_LONG',
    field: 'X-Long',
    message: 'X-Long has 2100 bytes, at most 2048 are allowed',
  },
  {
    code: 'E_HEADER_VALUE_INVALID',
    field: 'X-Twice',
    message: 'X-Twice appears 2 times, at most once is allowed',
  },
];

/** What no rule cures: characters, and a trace. */
export const uncuredReasons = [
  { code: 'E_HEADER_VALUE_INVALID', field: 'X-Bell', message: 'X-Bell holds the control character 0x07' },
  {
    code: 'E_HEADER_NOT_ALLOWED',
    field: 'Received',
    message: 'Received is set by the platform; only a trusted hop may bring its own',
  },
  { code: 'E_FIELD_MISSING', message: 'From is missing' },
];

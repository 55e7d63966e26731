// The verdict of `validate` (D47) and of `postern check`: violations as of `send`, counts, and the headers that would leave.

import type { examine, Submission, Violation } from '../../pipeline/submit.ts';
import { cutText } from '../../web/http/json/cut-text.ts';
import { mergeFaults } from './merge-faults.ts';
import type { ReadRequest } from './read-request.ts';
import type { RestLimits } from './settings.ts';

/** A message as it would leave, or why it would not. */
type Preview = (
  submission: Submission,
) => Promise<
  | { readonly ok: true; readonly head: Buffer; readonly body: Buffer }
  | { readonly ok: false; readonly violations: readonly Violation[] }
>;

/** What validation asks. */
export interface ValidationParts {
  readonly limits: RestLimits;
  /** Tells every reason against a message without sending it. */
  readonly examine: (submission: Submission) => ReturnType<typeof examine>;
  /** Builds a message as it would leave, and keeps nothing. */
  readonly preview: Preview;
  /** Gives where the pages of headers are, `https://gateway.example/headers`; absent, or undefined: nobody has said it. */
  readonly headersUrl?: () => string | undefined;
}

function fieldsOf(head: Buffer): string[] {
  return head
    .toString('utf8')
    .replace(/\r\n\r\n$/, '')
    .split(/\r\n(?![ \t])/);
}

/** Judges a request that has been read. `sent` is the message as it would leave; undefined where it would not. */
export async function validation(read: ReadRequest, { preview, limits, headersUrl, ...parts }: ValidationParts) {
  const { submission } = read;
  const { explanation, violations } = await parts.examine(submission);
  const judged = mergeFaults(submission, read.faults, violations, headersUrl?.());
  const built = judged.length === 0 ? await preview(submission) : undefined;
  const faults = built?.ok === false ? mergeFaults(submission, [], built.violations, headersUrl?.()) : judged;
  const sent = built?.ok === true ? built : undefined;
  const result = {
    usage: {
      allowlisted_headers: explanation.usage.allowlisted,
      header_bytes: explanation.usage.bytes,
      message_bytes: sent ? sent.head.length + sent.body.length : null,
      recipients: read.recipients,
    },
    limits: {
      allowlisted_headers: explanation.limits.allowlisted,
      header_bytes: explanation.limits.totalBytes,
      message_bytes: limits.messageBytes,
      recipients: limits.recipients,
    },
    headers: explanation.headers.map(({ name, verdict, rule, standard, violation }) => ({
      name: cutText(name, 100, 60).toWellFormed(),
      verdict,
      rule,
      ...(standard === undefined ? {} : { standard }),
      ...(violation ? { token: violation.code } : {}),
    })),
    headers_as_sent: sent ? fieldsOf(sent.head) : null,
  };
  return { faults, result, explanation, sent };
}

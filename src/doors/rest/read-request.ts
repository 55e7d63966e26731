// What reading a request of send and of send_raw have in common.

import type { Account, Submitter } from '../../accounts/account.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import type { Submission, Via, Violation } from '../../pipeline/submit.ts';
import type { Fault } from '../../web/http/envelope.ts';
import type { JsonObject, JsonValue } from '../../web/http/json/json-reader.ts';
import { type RequestJudge, schemaFaults } from '../../web/http/schema-faults.ts';
import type { ApiMailbox } from './addresses.ts';
import type { RestLimits } from './settings.ts';

/** A request as read: what would be submitted, and what its fields alone are refused for. */
export interface ReadRequest {
  readonly submission: Submission;
  /** In the order of the answer; empty means that only the policy can still refuse it. */
  readonly faults: readonly Fault[];
  /** Recipients as given, for `validate`. */
  readonly recipients: number;
}

/** What reading needs besides the request. */
export interface ReadContext {
  readonly submitter: Submitter;
  readonly limits: RestLimits;
  /** The Ray-ID: one id from the request to delivery. */
  readonly sessionId: string;
  readonly remoteAddress: string;
  readonly suppressed: (account: Account, recipient: string) => boolean | Promise<boolean>;
}

/** Judges a body by its schema and gives the faults. Optional fields that are null are removed from the body (D5). */
export async function judge(validate: RequestJudge, value: JsonValue): Promise<Fault[]> {
  if (validate(value)) return [];
  const errors = validate.errors ?? [];
  await yieldToEventLoop();
  return schemaFaults(errors, 'body');
}

/** How the message came in. REST tells nothing of the client (D25), and only raw messages carry trace fields (D4). */
export function viaOf(kind: 'rest' | 'raw', { submitter, sessionId, remoteAddress }: ReadContext): Via {
  const { legacyCharset, trustedHop } = submitter.credential;
  return {
    kind,
    sessionId,
    remoteAddress,
    protocol: 'HTTP',
    legacyCharset: legacyCharset ?? 'windows-1252',
    trustedHop: kind === 'raw' && trustedHop,
    lineEndings: 'fix',
  };
}

/** Whether an address needs no SMTPUTF8. */
export function isAscii(text: string): boolean {
  return !/[^\x00-\x7f]/.test(text);
}

/** Stands for the fields of a body that is no object. */
export const noFields: JsonObject = {};

/** How many entries a field has, readable or not. */
export function countOf(value: JsonValue | undefined): number {
  return value === undefined ? 0 : Array.isArray(value) ? value.length : 1;
}

/** The recipients that the account's suppression list holds (D51). Where there are too many recipients, none is looked up. */
export async function suppressedOf(
  boxes: readonly ApiMailbox[],
  { submitter, suppressed, limits }: ReadContext,
): Promise<Violation[]> {
  if (boxes.length > limits.recipients) return [];
  const isOnList = await Promise.all(boxes.map(async ({ address }) => await suppressed(submitter.account, address)));
  return boxes
    .filter((_, index) => isOnList[index])
    .map(({ address, pointer }) => {
      const message = `${address} is on the suppression list of account ${submitter.account.name}`;
      return { code: 'E_RECIPIENT_SUPPRESSED', message, pointer };
    });
}

/** A value that is a string. */
export function stringOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

// What reading a request of send and of send_raw have in common.

import type { ValidateFunction } from 'ajv';
import type { Account, Submitter } from '../../accounts/account.ts';
import type { Fault } from '../../http/envelope.ts';
import type { JsonObject, JsonValue } from '../../http/json-reader.ts';
import { schemaFaults } from '../../http/schema-faults.ts';
import type { Submission, Via, Violation } from '../../submit.ts';
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
  /** Whether the account's suppression list holds a recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => boolean;
}

/** What the schema has against a body. */
export function judge(validate: ValidateFunction, value: JsonValue): Fault[] {
  return validate(value) ? [] : schemaFaults(validate.errors ?? [], 'body');
}

/** How the message came in; REST tells nothing of the client (D25), and only raw messages carry trace (D4). */
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

/** What a body that is no object has. */
export const noFields: JsonObject = {};

/** How many entries a field has, readable or not. */
export function countOf(value: JsonValue | undefined): number {
  return value === undefined ? 0 : Array.isArray(value) ? value.length : 1;
}

/** The recipients that the account's list holds (D51). */
export function suppressedOf(boxes: readonly ApiMailbox[], { submitter, suppressed }: ReadContext): Violation[] {
  return boxes
    .filter(({ address }) => suppressed(submitter.account, address))
    .map(({ address, pointer }) => {
      const message = `${address} is on the suppression list of account ${submitter.account.name}`;
      return { code: 'E_RECIPIENT_SUPPRESSED', message, pointer };
    });
}

/** A value that is a string. */
export function stringOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

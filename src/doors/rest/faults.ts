// How the readers of a request refuse a value, and how the faults of its fields and the policy's violations make one answer (D42b).

import type { Submission, Violation } from '../../pipeline/submit.ts';
import type { Fault } from '../../web/http/envelope.ts';

/** What no text may hold: line ends would make new header fields; the other controls have no place in a name or an address either. */
export const control = /[\p{Cc}\u2028\u2029]/u;
/** Said of a text that does. */
export const holdsControl = 'holds a line break or another control character';

/** Refuses a value. @param pointer its place in the body, by which the message names it @param reason goes on from its name */
export function invalid(pointer: string, reason: string): Violation {
  return { code: 'E_VALIDATION_ERROR', message: `${pointer.slice(1).replaceAll('/', '.')} ${reason}`, pointer };
}

/** Turns a violation into a fault of the envelope. */
export function faultOf({ code, message, pointer }: Violation): Fault {
  return { token: code, message, ...(pointer === undefined ? {} : { pointer }) };
}

/** The place in the body that a violation of the policy is about, for violations that name none themselves. */
function pointerOf({ via }: Submission, { code, name, retryAfterSeconds }: Violation): string | undefined {
  if (retryAfterSeconds !== undefined || code === 'E_CONTENT_TOO_LARGE') return undefined;
  if (code === 'E_SENDER_NOT_VERIFIED' && name === undefined) return '/from';
  if (via.kind === 'raw') return '/mime_message';
  return code === 'E_HEADERS_TOO_MANY' || code === 'E_HEADERS_TOO_LARGE' ? '/headers' : undefined;
}

/** The page of the rule of the header that a reason is about; none where no header can have the name. */
function ruleOf({ code, name }: Violation, headersUrl: string | undefined): Pick<Fault, 'ruleUrl'> {
  if (headersUrl === undefined || name === undefined || code === 'E_HEADER_NAME_INVALID') return {};
  return { ruleUrl: `${headersUrl}/${encodeURIComponent(name)}` };
}

/** Gives the fields' faults, then the policy's on the rest, each once (D42b). @param headersUrl of the pages of headers, if any */
export function mergeFaults(
  submission: Submission,
  ofFields: readonly Fault[],
  violations: readonly Violation[],
  headersUrl?: string,
): readonly Fault[] {
  const isUnread = ofFields.some(
    (fault) => fault.pointer === '/mime_message' && !('token' in fault && fault.token === 'E_CONTENT_TOO_LARGE'),
  );
  // The policy reports a sender that cannot be read as missing; the fault of the field says it already.
  const fromIsTold = ofFields.some(({ pointer = '' }) => pointer === '/from' || pointer.startsWith('/from/'));
  const more = violations.flatMap((violation) => {
    const pointer = violation.pointer ?? pointerOf(submission, violation);
    if (pointer === '/from' && fromIsTold) return [];
    if (isUnread && pointer === '/mime_message') return [];
    return [{ ...faultOf(violation), ...(pointer === undefined ? {} : { pointer }), ...ruleOf(violation, headersUrl) }];
  });
  return [...ofFields, ...more];
}

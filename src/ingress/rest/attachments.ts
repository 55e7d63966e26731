// The attachments of a request (D43): base64 held to its form (RFC 4648 §4), names without line ends.

import type { DecodedText } from '../../http/json-base64.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../http/json-reader.ts';
import type { Attachment, Violation } from '../../submit.ts';

const control = /[\p{Cc}\u2028\u2029]/u;

/** What was read. */
export interface ReadAttachments {
  readonly attachments: readonly Attachment[];
  readonly violations: readonly Violation[];
  /** Of all contents together. */
  readonly octets: number;
}

function texts(item: JsonObject, pointer: string): Violation[] {
  const violations: Violation[] = [];
  for (const name of ['filename', 'type', 'content_id']) {
    const value = item[name];
    if (typeof value !== 'string' || !control.test(value)) continue;
    const message = `${`${pointer}/${name}`.slice(1).replaceAll('/', '.')} holds a line break or another control character`;
    violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/${name}` });
  }
  return violations;
}

function text(item: JsonObject, name: string): string | undefined {
  const value = item[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/**
 * Reads what has the shape of an attachment; what has not is the schema's affair.
 * @param decoded the contents by their pointers, as the reader of the JSON decoded them
 */
export function readAttachments(
  value: JsonValue | undefined,
  decoded: ReadonlyMap<string, DecodedText>,
): ReadAttachments {
  const attachments: Attachment[] = [];
  const violations: Violation[] = [];
  let octets = 0;
  const items: readonly JsonValue[] = Array.isArray(value) ? value : [];
  items.forEach((item, index) => {
    if (!isJsonObject(item)) return;
    const pointer = `/attachments/${index}`;
    const content = decoded.get(`${pointer}/content`);
    if (!content) return;
    const broken = texts(item, pointer);
    if ('fault' in content) {
      const message = `attachments.${index}.content ${content.fault}`;
      broken.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/content` });
    }
    violations.push(...broken);
    if (broken.length > 0 || !('octets' in content)) return;
    const filename = text(item, 'filename');
    const contentId = text(item, 'content_id');
    octets += content.octets.length;
    attachments.push({
      content: content.octets,
      contentType: text(item, 'type') ?? 'application/octet-stream',
      disposition: item['disposition'] === 'inline' ? 'inline' : 'attachment',
      ...(filename === undefined ? {} : { filename }),
      ...(contentId === undefined ? {} : { contentId }),
    });
  });
  return { attachments, violations, octets };
}

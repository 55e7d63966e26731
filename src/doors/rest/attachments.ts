// Reads the attachments of a request (D43): base64 must have its exact form (RFC 4648 §4), names must not hold line ends.

import type { Attachment, Violation } from '../../pipeline/submit.ts';
import type { DecodedText } from '../../web/http/json/json-base64.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../web/http/json/json-reader.ts';

const control = /[\p{Cc}\u2028\u2029]/u;

/** The attachments that were read. */
export interface ReadAttachments {
  readonly attachments: readonly Attachment[];
  readonly violations: readonly Violation[];
  /** Of all contents together. */
  readonly octets: number;
}

const textNames = ['filename', 'type', 'content_id'] as const;
/** Characters. The schema has already reported a text that is longer. */
const longestText = 998;

function isTooLong(item: JsonObject): boolean {
  return textNames.some((name) => (text(item, name)?.length ?? 0) > longestText);
}

function texts(item: JsonObject, pointer: string): Violation[] {
  const violations: Violation[] = [];
  for (const name of textNames) {
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
 * Reads the entries that have the shape of an attachment; the schema reports the others.
 * @param decoded the contents by their pointers, as the reader of the JSON decoded them
 * @param most how many attachments are read; of further ones only the octets are counted
 */
export function readAttachments(
  value: JsonValue | undefined,
  decoded: ReadonlyMap<string, DecodedText>,
  most: number,
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
    if ('octets' in content) octets += content.octets.length;
    if (index >= most || isTooLong(item)) return;
    const broken = texts(item, pointer);
    if ('fault' in content) {
      const message = `attachments.${index}.content ${content.fault}`;
      broken.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/content` });
    }
    for (const violation of broken) violations.push(violation);
    if (broken.length > 0 || !('octets' in content)) return;
    const filename = text(item, 'filename');
    const contentId = text(item, 'content_id');
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

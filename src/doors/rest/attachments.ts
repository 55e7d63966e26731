// Reads the attachments of a request (D43): base64 must have its exact form (RFC 4648 §4), names must not hold line ends.

import type { Attachment, Violation } from '../../pipeline/submit.ts';
import type { DecodedText } from '../../web/http/json/json-base64.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../web/http/json/json-reader.ts';
import { control, holdsControl, invalid } from './invalid.ts';

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

function text(item: JsonObject, name: (typeof textNames)[number]): string | undefined {
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
    if (index >= most || textNames.some((name) => (text(item, name)?.length ?? 0) > longestText)) return;
    const broken = textNames.filter((name) => control.test(text(item, name) ?? ''));
    for (const name of broken) violations.push(invalid(`${pointer}/${name}`, holdsControl));
    if ('fault' in content) violations.push(invalid(`${pointer}/content`, content.fault));
    if (broken.length > 0 || 'fault' in content) return;
    attachments.push({
      content: content.octets,
      contentType: text(item, 'type') ?? 'application/octet-stream',
      disposition: item['disposition'] === 'inline' ? 'inline' : 'attachment',
      filename: text(item, 'filename'),
      contentId: text(item, 'content_id'),
    });
  });
  return { attachments, violations, octets };
}

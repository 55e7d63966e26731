// The attachments of a request (D43): base64 held to its form (RFC 4648 §4), names without line ends.

import { isJsonObject, type JsonObject, type JsonValue } from '../../http/json-reader.ts';
import type { Attachment, Violation } from '../../submit.ts';

const control = /[\p{Cc}\u2028\u2029]/u;
const otherThanBase64 = /[^A-Za-z0-9+/]/;

/** Says what is wrong with base64, or nothing. Linear. */
export function base64Fault(text: string): string | undefined {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const at = text.search(otherThanBase64);
  if (at >= 0 && at < text.length - padding) {
    return `is not base64: ${JSON.stringify(text.charAt(at))} at character ${at}`;
  }
  return text.length % 4 === 0 ? undefined : `is not base64: ${text.length} characters are no multiple of 4`;
}

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

/** Decodes what has the shape of an attachment; what has not is the schema's affair. */
export function readAttachments(value: JsonValue | undefined): ReadAttachments {
  const attachments: Attachment[] = [];
  const violations: Violation[] = [];
  let octets = 0;
  const items: readonly JsonValue[] = Array.isArray(value) ? value : [];
  items.forEach((item, index) => {
    if (!isJsonObject(item)) return;
    const pointer = `/attachments/${index}`;
    const { content, disposition } = item;
    if (typeof content !== 'string') return;
    const broken = texts(item, pointer);
    const fault = base64Fault(content);
    if (fault !== undefined) {
      const message = `attachments.${index}.content ${fault}`;
      broken.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/content` });
    }
    violations.push(...broken);
    if (broken.length > 0) return;
    const filename = text(item, 'filename');
    const contentId = text(item, 'content_id');
    const decoded = Buffer.from(content, 'base64');
    octets += decoded.length;
    attachments.push({
      content: decoded,
      contentType: text(item, 'type') ?? 'application/octet-stream',
      disposition: disposition === 'inline' ? 'inline' : 'attachment',
      ...(filename === undefined ? {} : { filename }),
      ...(contentId === undefined ? {} : { contentId }),
    });
  });
  return { attachments, violations, octets };
}

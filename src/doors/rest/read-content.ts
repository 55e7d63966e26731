// What a request of send holds besides addresses and headers: subject, text, HTML and attachments (D42, D43).

import type { Attachment, SubmissionBody, Violation } from '../../pipeline/submit.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../web/http/json/json-reader.ts';
import type { DecodedText } from '../../web/http/json/json-string.ts';
import { control, holdsControl, invalid } from './faults.ts';
import { countOf, stringOf } from './read-request.ts';
import type { RestLimits } from './settings.ts';

const textNames = ['filename', 'type', 'content_id'] as const;
/** Characters. The schema has already reported a text that is longer. */
const longestText = 998;

function text(item: JsonObject, name: (typeof textNames)[number]): string | undefined {
  const value = item[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Reads the entries that have the shape of an attachment, `most` at most; the schema reports the others. @returns also the octets of all */
function readAttachments(value: JsonValue | undefined, decoded: ReadonlyMap<string, DecodedText>, most: number) {
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

/** What is wrong with the subject: its length in characters, or something in it that would end the line (D42). */
export function subjectViolations(subject: JsonValue | undefined, limits: RestLimits): Violation[] {
  if (typeof subject !== 'string') return [];
  const pointer = '/subject';
  const most = limits.subjectCharacters;
  // A character is one or two units of UTF-16, so a text with few enough units needs no count. Of a pair, one unit counts.
  const characters = subject.length <= most ? subject.length : subject.replace(/[\ud800-\udbff]/g, '').length;
  if (characters > most) return [invalid(pointer, `has ${characters} characters, at most ${most} are allowed`)];
  return control.test(subject.replaceAll('\t', ' ')) ? [invalid(pointer, holdsControl)] : [];
}

/** A message is never smaller than its texts, which are written as they are or encoded (D21). */
function sizeViolations(octets: { readonly texts: number; readonly attachments: number }, most: number): Violation[] {
  const { texts, attachments } = octets;
  if (texts + attachments <= most) return [];
  if (attachments > most) {
    const message = `The attachments have ${attachments} octets, the message at most ${most}`;
    return [{ code: 'E_CONTENT_TOO_LARGE', message, pointer: '/attachments' }];
  }
  const what = attachments === 0 ? 'text and html' : 'text, html and attachments';
  const message = `${what} have ${texts + attachments} octets together, the message at most ${most}`;
  return [{ code: 'E_CONTENT_TOO_LARGE', message }];
}

/** Reads text, HTML and attachments. @param decoded contents by pointer @returns the body (empty where too large) and its faults */
export function readContent(
  body: JsonObject,
  decoded: ReadonlyMap<string, DecodedText>,
  limits: RestLimits,
): { readonly body: SubmissionBody; readonly violations: readonly Violation[] } {
  const given = body['attachments'];
  const read = readAttachments(given, decoded, limits.attachments);
  const text = stringOf(body['text']);
  const html = stringOf(body['html']);
  const violations: Violation[] = [...read.violations];
  if (body['text'] === undefined && body['html'] === undefined) {
    violations.push({ code: 'E_FIELD_MISSING', message: 'One of "text" and "html" is missing', pointer: '/text' });
  }
  if (Array.isArray(given) && given.length > limits.attachments) {
    const message = `There are ${countOf(given)} attachments, at most ${limits.attachments} are allowed`;
    violations.push({ code: 'E_TOO_MANY_ATTACHMENTS', message, pointer: '/attachments' });
  }
  const texts = Buffer.byteLength(text ?? '') + Buffer.byteLength(html ?? '');
  const ofSize = sizeViolations({ texts, attachments: read.octets }, limits.messageBytes);
  if (ofSize.length > 0) return { body: { kind: 'parts', attachments: [] }, violations: [...violations, ...ofSize] };
  return { body: { kind: 'parts', attachments: read.attachments, text, html }, violations };
}

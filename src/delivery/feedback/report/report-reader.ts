// Reads reports: those of the plainest form at once, by a reader whose cost is bounded, all others in a process of their own, one after
// another, so that submission never waits for a report. Those who wait have their turns by address: who sends costly ones keeps mostly
// itself waiting. A report that takes too long or too much memory costs its process; the next one gets another.

import { AskedProcess, type WorkLimits } from '../../../base/asked-process.ts';
import { readDeliveryStatus } from './delivery-status.ts';
import { type DeliveryReport, type Report, returnedTypes, statusTypes } from './report.ts';
import type { ReportAnswer, ReportQuestion } from './report-process.ts';

// Reads reports of the form that common servers write: multipart/report whose parts are text, message/delivery-status and the
// returned message (RFC 6522, RFC 3464), without encodings and nothing else in it. It looks at each octet a bounded number of
// times, so it may run where everything else runs; the general reader, which takes any message, has a process of its own.
// What it answers is what the general reader answers. Where it cannot be sure of that, it answers nothing.

/** Octets of the header of the report and of each part. */
const headerOctets = 16_384;
/** Octets of the fields about recipients: the cost of reading them keeps everything else waiting. */
const statusOctets = 16_384;
const mostParts = 8;

/** Content types that say nothing beside message/delivery-status. */
const silentTypes = new Set(['text/plain', 'text/html', ...returnedTypes]);
/** Fields that a part may have; any other, such as Content-Disposition, may change what the part is. */
const partFields = new Set(['content-type', 'content-description', 'content-transfer-encoding', 'content-id']);
const plainEncodings = new Set(['7bit', '8bit', 'binary']);

/** Printable ASCII and tabs; RFC 5322 §2.2 */
const plainLine = /^[\t\x20-\x7e]*$/;
const fieldLine = /^([\x21-\x39\x3b-\x7e]{1,76}):[ \t]*(.*)$/;
/** A parameter whose value can be read in one way only: no comment, escape, encoded-word or blank. */
const parameter = /^[ \t]*([a-z-]{1,40})=(?:"([\w.+/:=,-]{1,70})"|([\w.+/:-]{1,70}))[ \t]*$/i;

/** Reads a header. @returns undefined where a line is no field, content stands twice, or octets are beyond ASCII */
function readHeader(octets: Buffer): Map<string, string> | undefined {
  if (octets.length > headerOctets) return undefined;
  const fields = new Map<string, string>();
  let name = '';
  for (const line of octets.toString('latin1').split('\r\n')) {
    if (!plainLine.test(line)) return undefined;
    if (line.startsWith(' ') || line.startsWith('\t')) {
      if (name === '') return undefined;
      if (name.startsWith('content-')) fields.set(name, `${fields.get(name)} ${line.trim()}`);
      continue;
    }
    const match = fieldLine.exec(line);
    if (match?.[1] === undefined) return undefined;
    name = match[1].toLowerCase();
    if (!name.startsWith('content-')) continue;
    if (fields.has(name)) return undefined;
    fields.set(name, (match[2] ?? '').trim());
  }
  return fields;
}

/** A content type and its parameters; undefined where it could be read in several ways. */
function readType(value: string): { readonly type: string; readonly parameters: Map<string, string> } | undefined {
  const [type = '', ...rest] = value.split(';');
  if (rest.at(-1)?.trim() === '') rest.pop();
  const parameters = new Map<string, string>();
  for (const one of rest) {
    const match = parameter.exec(one);
    const name = match?.[1]?.toLowerCase();
    if (name === undefined || parameters.has(name)) return undefined;
    parameters.set(name, match?.[2] ?? match?.[3] ?? '');
  }
  return { type: type.trim().toLowerCase(), parameters };
}

interface Part {
  readonly type: string;
  readonly body: Buffer;
}

function readPart(octets: Buffer): Part | undefined {
  const end = octets.subarray(0, 2).equals(lineEnd) ? 0 : octets.subarray(0, headerOctets + 4).indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const header = end === 0 ? new Map<string, string>() : readHeader(octets.subarray(0, end));
  if (!header) return undefined;
  for (const name of header.keys()) if (!partFields.has(name)) return undefined;
  const type = readType(header.get('content-type') ?? 'text/plain')?.type ?? '';
  const encoding = header.get('content-transfer-encoding');
  if (encoding !== undefined && !plainEncodings.has(encoding.toLowerCase())) return undefined;
  return { type, body: octets.subarray(end === 0 ? 2 : end + 4) };
}

const lineEnd = Buffer.from('\r\n');
const [carriageReturn, lineFeed, hyphen] = [0x0d, 0x0a, 0x2d];

/** Splits at delimiters (RFC 2046 §5.1.1); undefined where something only looks like one, or stands behind the last. */
function readParts(octets: Buffer, boundary: string): Part[] | undefined {
  const delimiter = Buffer.from(`--${boundary}`, 'latin1');
  const parts: Part[] = [];
  for (let at = octets.indexOf(delimiter), start = -1; at >= 0; at = octets.indexOf(delimiter, start)) {
    if (octets[at - 2] !== carriageReturn || octets[at - 1] !== lineFeed) return undefined;
    if (start >= 0) {
      const part = parts.length < mostParts ? readPart(octets.subarray(start, Math.max(start, at - 2))) : undefined;
      if (!part) return undefined;
      parts.push(part);
    }
    const end = at + delimiter.length;
    if (start >= 0 && octets[end] === hyphen && octets[end + 1] === hyphen) {
      const isEnd = octets.length < end + 1024 && /^(?:\r\n)*$/.test(octets.toString('latin1', end + 2));
      return isEnd ? parts : undefined;
    }
    if (octets[end] !== carriageReturn || octets[end + 1] !== lineFeed) return undefined;
    start = end + 2;
  }
  return undefined;
}

/** Reads a report of the common form; undefined for another form, a larger one, or one whose words are in the text. */
export function readStrictReport(octets: Buffer): DeliveryReport | undefined {
  const end = octets.subarray(0, headerOctets + 4).indexOf('\r\n\r\n');
  const header = end < 0 ? undefined : readHeader(octets.subarray(0, end));
  if (!header || header.has('content-disposition')) return undefined;
  const { type, parameters } = readType(header.get('content-type') ?? '') ?? {};
  const boundary = parameters?.get('boundary');
  if (type !== 'multipart/report' || boundary === undefined) return undefined;
  if (!plainEncodings.has(header.get('content-transfer-encoding')?.toLowerCase() ?? '7bit')) return undefined;
  const parts = readParts(octets.subarray(end + 2), boundary);
  const status = parts?.find((part) => statusTypes.has(part.type));
  if (!parts || !status || status.body.length > statusOctets) return undefined;
  if (!parts.every((part) => part === status || silentTypes.has(part.type))) return undefined;
  const report = readDeliveryStatus(status.body);
  return report?.recipients.every(({ diagnostic }) => diagnostic !== undefined) ? report : undefined;
}

/** Reads what came to a bounce address. */
export interface ReportReader {
  /**
   * Reads a message.
   * @param from who sent it: the messages of one address wait for each other
   * @returns the reason in words where it cannot be read: it has too many parts, took too long, or too much memory
   * @throws Unavailable where nothing can be read now: the process cannot be started, or the gateway is stopping
   */
  read(
    octets: Buffer,
    about: { readonly isFromNobody: boolean; readonly from: string },
  ): Promise<Report | { readonly kind: 'unreadable'; readonly why: string }>;
  /** Ends the process. What is still to be read is refused for now. */
  close(): Promise<void>;
}

/** A report of a megabyte takes some hundred milliseconds; it has a megabyte at most. */
const readerLimits: WorkLimits = { milliseconds: 10_000, heapMebibytes: 128 };

/** Makes a reader. Its process starts with the first report that needs it, and while idle it does not keep this process alive. */
export function createReportReader(limits: WorkLimits = readerLimits): ReportReader {
  const reading = new AskedProcess<ReportQuestion, ReportAnswer>(
    new URL('./report-process.ts', import.meta.url),
    limits,
  );
  return {
    // As many wait as there are connections to the bounce listener, since each waits for the answer to its message.
    async read(octets, { isFromNobody, from }) {
      const strict = readStrictReport(octets);
      if (strict) return strict;
      const answer = await reading.ask({ octets, isFromNobody }, from);
      return 'report' in answer ? answer.report : { kind: 'unreadable', why: answer.error };
    },
    close: () => reading.close(),
  };
}

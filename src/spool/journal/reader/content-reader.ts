// Reads the content of messages for people: what strangers wrote is taken apart in a process of its own.

import { AskedProcess, type WorkFailure, type WorkLimits } from '../../../base/asked-process.ts';

/** A question. */
export type ContentQuestion =
  | { readonly kind: 'preview'; readonly octets: Uint8Array }
  /** `records`: the DNS records of the keys on file, each name with its text. */
  | { readonly kind: 'dkim'; readonly octets: Uint8Array; readonly records: readonly (readonly [string, string])[] };

/** A message as people read it. */
export interface MessagePreview {
  /** In the order of the text, decoded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly text: string | null;
  /** As it came: whoever shows it has to make it harmless. */
  readonly html: string | null;
  /** Text, HTML or headers were cut. */
  readonly truncated: boolean;
  readonly attachments: readonly {
    readonly filename: string | null;
    readonly type: string;
    readonly size: number;
    readonly inline: boolean;
    readonly content_id: string | null;
  }[];
}

/** The verdict on one signature. */
export interface SignatureVerdict {
  readonly domain: string;
  readonly selector: string;
  readonly algorithm: string;
  /** pass, fail, neutral, permerror, temperror ... (RFC 8601 §2.7.1). */
  readonly result: string;
  /** Why, where it is no pass. */
  readonly reason: string | null;
  /** The fields that it covers, as it names them. */
  readonly signed_headers: string;
}

/** The answer to a question that has one. */
export type ContentAnswer = { readonly preview: MessagePreview } | { readonly signatures: readonly SignatureVerdict[] };

/** A message has half a megabyte at most, whose deepest nesting takes some hundred milliseconds. */
const contentLimits: WorkLimits = { milliseconds: 10_000, heapMebibytes: 128 };
const program = new URL('./content-process.ts', import.meta.url);
const unexpected: WorkFailure = { error: 'The process answered another question' };

/**
 * Reads content. Questions of one account wait for each other; where a message cannot be read, the answer says why. The process starts
 * with the first question.
 */
export class ContentReader {
  readonly #reading = new AskedProcess<ContentQuestion, ContentAnswer>(program, contentLimits);

  /** Takes a message apart. @throws Unavailable where nothing can be read now */
  async preview(octets: Buffer, account: string): Promise<MessagePreview | WorkFailure> {
    const answer = await this.#reading.ask({ kind: 'preview', octets }, account);
    return 'error' in answer ? answer : 'preview' in answer ? answer.preview : unexpected;
  }

  /** Verifies its signatures. @throws as `preview` */
  async verify(
    octets: Buffer,
    records: readonly (readonly [string, string])[],
    account: string,
  ): Promise<readonly SignatureVerdict[] | WorkFailure> {
    const answer = await this.#reading.ask({ kind: 'dkim', octets, records }, account);
    return 'error' in answer ? answer : 'signatures' in answer ? answer.signatures : unexpected;
  }

  /** Ends the process. */
  close(): Promise<void> {
    return this.#reading.close();
  }
}

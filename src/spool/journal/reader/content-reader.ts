// Reads the content of messages for people: what strangers wrote is taken apart in a process of its own.

import { AskedProcess, type WorkFailure, type WorkLimits } from '../../../base/asked-process.ts';
import type { ContentAnswer, ContentQuestion } from './content-process.ts';

/** A message has half a megabyte at most, whose deepest nesting takes some hundred milliseconds. */
const contentLimits: WorkLimits = { milliseconds: 10_000, heapMebibytes: 128 };
const program = new URL('./content-process.ts', import.meta.url);
const unexpected: WorkFailure = { error: 'The process answered another question' };

/** Reads content, one question of an account at a time; what cannot be read says why. The process starts with the first one. */
export class ContentReader {
  readonly #reading = new AskedProcess<ContentQuestion, ContentAnswer>(program, contentLimits);

  /** Takes a message apart. @throws Unavailable where nothing can be read now */
  async preview(octets: Buffer, account: string) {
    const answer = await this.#reading.ask({ kind: 'preview', octets }, account);
    return 'error' in answer ? answer : 'preview' in answer ? answer.preview : unexpected;
  }

  /** Verifies its signatures. @param records the DNS records of the keys on file, each name with its text @throws as `preview` */
  async verify(octets: Buffer, records: readonly (readonly [string, string])[], account: string) {
    const answer = await this.#reading.ask({ kind: 'dkim', octets, records }, account);
    return 'error' in answer ? answer : 'signatures' in answer ? answer.signatures : unexpected;
  }

  /** Ends the process. */
  close(): Promise<void> {
    return this.#reading.close();
  }
}

// Reads the content of messages for people: what strangers wrote is taken apart in a process of its own.

import { AskedProcess, type WorkFailure, type WorkLimits } from '../../../base/asked-process.ts';
import type { ContentAnswer, ContentQuestion, MessagePreview, SignatureVerdict } from './content-question.ts';

/** Reads content. Questions of one account wait for each other; where a message cannot be read, the answer says why. */
export interface ContentReader {
  /** Takes a message apart. @throws Unavailable where nothing can be read now */
  preview(octets: Buffer, account: string): Promise<MessagePreview | WorkFailure>;
  /** Verifies its signatures. @throws Unavailable */
  verify(
    octets: Buffer,
    records: readonly (readonly [string, string])[],
    account: string,
  ): Promise<readonly SignatureVerdict[] | WorkFailure>;
  /** Ends the process. */
  close(): Promise<void>;
}

/** A message has half a megabyte at most, whose deepest nesting takes some hundred milliseconds. */
const contentLimits: WorkLimits = { milliseconds: 10_000, heapMebibytes: 128 };

/** Makes a reader. Its process starts with the first question. */
export function createContentReader(): ContentReader {
  const program = new URL('./content-process.ts', import.meta.url);
  const reading = new AskedProcess<ContentQuestion, ContentAnswer>(program, contentLimits);
  const unexpected: WorkFailure = { error: 'The process answered another question' };
  return {
    async preview(octets, account) {
      const answer = await reading.ask({ kind: 'preview', octets }, account);
      if ('error' in answer) return answer;
      return 'preview' in answer ? answer.preview : unexpected;
    },
    async verify(octets, records, account) {
      const answer = await reading.ask({ kind: 'dkim', octets, records }, account);
      if ('error' in answer) return answer;
      return 'signatures' in answer ? answer.signatures : unexpected;
    },
    close: () => reading.close(),
  };
}

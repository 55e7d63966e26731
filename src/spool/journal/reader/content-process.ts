// The process that reads the content of messages; all it does is answer questions.

import type { ContentAnswer, ContentQuestion } from './content-question.ts';
import { readPreview } from './read-preview.ts';
import { verifyDkim } from './verify-dkim.ts';

async function answer(question: ContentQuestion): Promise<ContentAnswer> {
  try {
    const { buffer, byteOffset, byteLength } = question.octets;
    const octets = Buffer.from(buffer, byteOffset, byteLength);
    if (question.kind === 'preview') return { preview: await readPreview(octets) };
    return { signatures: await verifyDkim(octets, question.records) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (!process.send) throw new Error('This file runs as the process of the content reader only');
process.on('message', (question: ContentQuestion) => void answer(question).then((given) => process.send?.(given)));
// The gateway ends this process when it has no more to read, and a signal to the whole group must not do so before.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('disconnect', () => process.exit());

// The worker thread that writes long header fields; all it does is call `writeField`.

import { parentPort } from 'node:worker_threads';
import { errorMessage } from '../base/errors.ts';
import { writeField } from '../mail/write-field.ts';

/** The answer to one question; answers come in the order of the questions. */
export type FieldAnswer = { readonly line: string } | { readonly error: string };

function answer(question: Parameters<typeof writeField>): FieldAnswer {
  try {
    return { line: writeField(...question) };
  } catch (error) {
    return { error: errorMessage(error) };
  }
}

const port = parentPort;
if (!port) throw new Error('This file runs as a worker thread of the field writer only');
port.on('message', (question: Parameters<typeof writeField>) => port.postMessage(answer(question), []));

// The worker thread that writes long header fields; all it does is call `writeField`.

import { type MessagePort, parentPort } from 'node:worker_threads';
import { type FieldKind, writeField } from '../mail/write-field.ts';

/** A field to be written. */
export interface FieldQuestion {
  readonly name: string;
  readonly text: string;
  readonly kind: FieldKind;
}

/** The answer to one question; answers come in the order of the questions. */
export type FieldAnswer = { readonly line: string } | { readonly error: string };

function answer({ name, text, kind }: FieldQuestion): FieldAnswer {
  try {
    return { line: writeField(name, text, kind) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function serve(port: MessagePort): void {
  port.on('message', (question: FieldQuestion) => port.postMessage(answer(question), []));
}

if (!parentPort) throw new Error('This file runs as a worker thread of the field writer only');
serve(parentPort);

// The pipeline, one screen long: check -> compose -> sign -> spool. Every door hands a Submission in and prints what
// comes back; nothing else leads into the spool.

import type { Submission } from './policy/submission.ts';
import type { Violation } from './policy/violation.ts';

export { type Rejection, type RejectionCode, rejections } from './policy/rejections.ts';
export type { Attachment, Submission, SubmissionBody, Via } from './policy/submission.ts';
export type { Violation } from './policy/violation.ts';

/** The pipeline's answer: on disk under this id, or refused with every reason. */
export type SubmitResult =
  | { readonly accepted: true; readonly id: string; readonly messageId: string }
  | { readonly accepted: false; readonly violations: readonly Violation[] };

/** Judges, builds, signs and keeps a message. It rejects (throws) on a fault of our own: the door answers 451 4.3.0. */
export type Submit = (submission: Submission) => Promise<SubmitResult>;

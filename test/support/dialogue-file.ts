// Dialogues as files: test/dialogues/*.smtp, one wire behaviour each.
//
//   # comment
//   @listener device | plain | secureOnly     device: a submitter without AUTH; plain: AUTH without TLS taken
//   @limit NAME NUMBER                        one of the limits of D42
//   @submit refuse | fail                     what the pipeline answers
//   @suppress ADDRESS
//   @rate over                                the account is over its rate
//   @hello                                    greeting and EHLO, replies not looked at
//   C: text      the client sends text and CRLF          c: text      without CRLF
//   S: text      the server's next line is exactly text  s: text      begins with text
//   X            the server has closed the connection
//   M: octets    the next message handed over has this body (everything behind the empty line)
//
// Escapes in all of them: \r \n \t \0 \\ \xHH, and \*N{text} for N times text. A dialogue that does not end in X ends
// with QUIT, so that a reply too many is seen; there are as many messages as M lines.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SmtpLimits, SmtpListener } from '../../src/doors/smtp/settings.ts';
import type { Submission, SubmitResult } from '../../src/pipeline/submit.ts';
import { type DoorChoices, deviceListener, plainListener, recordingSubmit } from './smtp-peers.ts';

const folder = join(import.meta.dirname, '../dialogues');

export type Step =
  | { readonly kind: 'send'; readonly octets: string }
  | { readonly kind: 'line'; readonly text: string; readonly whole: boolean; readonly at: number }
  | { readonly kind: 'closed'; readonly at: number };

/** A dialogue as it stands in its file. */
export interface DialogueFile {
  readonly name: string;
  readonly listener: SmtpListener;
  readonly limits: Partial<SmtpLimits>;
  readonly submit: 'accept' | 'refuse' | 'fail';
  readonly suppressed: readonly string[];
  readonly overRate: boolean;
  readonly hello: boolean;
  readonly steps: readonly Step[];
  readonly bodies: readonly string[];
}

const escapes: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t', '0': '\0', '\\': '\\' };

/** Reads the escapes; one character an octet. */
export function unescape(text: string): string {
  const repeated = text.replace(/\\\*(\d+)\{([^}]*)\}/g, (_, count: string, part: string) =>
    part.repeat(Number(count)),
  );
  return repeated.replace(/\\(?:x([0-9A-Fa-f]{2})|([rnt0\\]))/g, (_, hex: string | undefined, letter: string) =>
    hex === undefined ? (escapes[letter] ?? '') : String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

const listeners: Readonly<Record<string, SmtpListener>> = {
  device: deviceListener,
  plain: plainListener,
  secureOnly: { ...plainListener, name: 'secure-only', tls: 'starttls', allowInsecureAuth: false },
};

function read(name: string): DialogueFile {
  const steps: Step[] = [];
  const bodies: string[] = [];
  const suppressed: string[] = [];
  const limits: Record<string, number> = {};
  let listener = deviceListener;
  let submit: DialogueFile['submit'] = 'accept';
  let overRate = false;
  let hello = false;
  const directives: Readonly<Record<string, (words: readonly string[]) => void>> = {
    listener: ([kind = '']) => {
      listener = listeners[kind] ?? deviceListener;
    },
    limit: ([limit = '', number]) => {
      limits[limit] = Number(number);
    },
    submit: ([answer]) => {
      submit = answer === 'refuse' ? 'refuse' : 'fail';
    },
    suppress: ([address = '']) => suppressed.push(address),
    rate: () => {
      overRate = true;
    },
    hello: () => {
      hello = true;
    },
  };
  for (const [index, line] of readFileSync(join(folder, name), 'utf8').split('\n').entries()) {
    const text = unescape(line.slice(3));
    const at = index + 1;
    if (line === '' || line.startsWith('#')) continue;
    if (line.startsWith('@')) {
      const [directive = '', ...words] = line.slice(1).split(' ');
      const apply = directives[directive];
      if (!apply) throw new Error(`${name}:${at}: no directive "${directive}"`);
      apply(words);
    } else if (line.startsWith('C:')) steps.push({ kind: 'send', octets: `${text}\r\n` });
    else if (line.startsWith('c:')) steps.push({ kind: 'send', octets: text });
    else if (line.startsWith('S:')) steps.push({ kind: 'line', text, whole: true, at });
    else if (line.startsWith('s:')) steps.push({ kind: 'line', text, whole: false, at });
    else if (line === 'X') steps.push({ kind: 'closed', at });
    else if (line.startsWith('M:')) bodies.push(text);
    else throw new Error(`${name}:${at}: cannot read "${line}"`);
  }
  if (steps.at(-1)?.kind !== 'closed') {
    steps.push(
      { kind: 'send', octets: 'QUIT\r\n' },
      { kind: 'line', text: '221 2.0.0 Bye', whole: true, at: 0 },
      { kind: 'closed', at: 0 },
    );
  }
  return { name, listener, limits, submit, suppressed, overRate, hello, steps, bodies };
}

/** Every dialogue, in the order of their names. */
export function readDialogues(): readonly DialogueFile[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.smtp'))
    .sort()
    .map(read);
}

/** A door's choices that fit the dialogue; messages go to `submissions`. */
export function choicesFor(dialogue: DialogueFile, submissions: Submission[]): DoorChoices {
  const accept = recordingSubmit(submissions);
  const answers: Readonly<Record<DialogueFile['submit'], (submission: Submission) => Promise<SubmitResult>>> = {
    accept,
    refuse: (submission) => {
      submissions.push(submission);
      return Promise.resolve({
        accepted: false,
        violations: [
          { code: 'E_HEADER_NOT_ALLOWED', name: 'User-Agent', message: 'User-Agent is not on the allowlist' },
          { code: 'E_HEADER_VALUE_INVALID', name: 'X-Ä', message: 'X-Ä is empty' },
        ],
      });
    },
    fail: () => Promise.reject(new Error('the disk is full')),
  };
  return {
    listeners: [dialogue.listener],
    limits: dialogue.limits,
    submit: answers[dialogue.submit],
    suppressed: (_account, recipient) => dialogue.suppressed.includes(recipient),
    rateLimit: () =>
      dialogue.overRate ? { code: 'E_RATE_LIMIT_EXCEEDED', message: 'more than 600 messages a minute' } : undefined,
  };
}

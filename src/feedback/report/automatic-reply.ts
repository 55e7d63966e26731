// Recognises what programs send in answer to mail and what is no report of a delivery: absence notices, challenges,
// confirmations of reading (RFC 3834, RFC 8098).

import type { ReplyReport } from './report.ts';

/** The header of a message, by names in lower case, each with its first value. */
export type Headers = ReadonlyMap<string, string>;

/** Subjects of absence notices and other automatic answers, in common languages. */
const absence =
  /^(?:(?:re|aw|antw|sv|r)\s*:\s*)?(?:auto(?:matic|mated|matische|matisk)?[\s:_-]*(?:reply|response|antwort|svar|respuesta)|auto\s*:|out of (?:the )?office|away from|vacation|on (?:holiday|leave|vacation)|abwesen|abwesenheits|ich bin (?:nicht|im urlaub)|r[ée]ponse automatique|absence|absent|je suis absent|respuesta autom|fuera de (?:la )?oficina|risposta automatica|assenza|resposta autom|automatisch antwoord|afwezig|autosvar|自動返信|自動応答|不在)/i;

const challenge =
  /\b(?:please (?:confirm|verify)|confirm(?:ation)? (?:your|is required|required|of your)|verify your (?:message|e-?mail|address)|sender (?:verification|confirmation)|challenge|needs? your confirmation|awaiting (?:your )?confirmation)\b/i;

/** Fields that only programs which answer mail write. */
const ofAnswers = [
  'x-autoreply',
  'x-autorespond',
  'x-autoreply-from',
  'x-auto-reply',
  'x-mail-autoreply',
  'x-vacation',
];

/** Names of a mailer itself; what systems that answer mail call themselves (noreply, bounces) is none. */
const mailer = /^"?(?:mailer-daemon|postmaster)"?(?:@|\s*\(|\s*$)/i;

/** Whether a mailer itself is the From of a message: MAILER-DAEMON or postmaster, with or without a domain. */
export function isFromMailer(headers: Headers): boolean {
  const from = (headers.get('from') ?? '').replace(/<\s*>/, '');
  return mailer.test((/<([^<>]*)>/.exec(from)?.[1] ?? from).trim());
}

/**
 * Tells what kind of answer a message is that is neither a report by its type nor by a field.
 * @returns undefined where nothing says that a program answered
 */
export function automaticReply(headers: Headers): ReplyReport | undefined {
  const subject = headers.get('subject') ?? '';
  if (absence.test(subject.trim())) return { kind: 'reply', why: 'automatic' };
  if (challenge.test(subject)) return { kind: 'reply', why: 'challenge' };
  if (ofAnswers.some((name) => headers.has(name))) return { kind: 'reply', why: 'automatic' };
  const precedence = (headers.get('precedence') ?? '').trim().toLowerCase();
  if (precedence === 'auto_reply' || precedence === 'auto-reply') return { kind: 'reply', why: 'automatic' };
  const automatic = (headers.get('auto-submitted') ?? 'no').trim().toLowerCase();
  // RFC 3834 §5; servers write it into their reports as well.
  if (!automatic.startsWith('no') && !isFromMailer(headers)) return { kind: 'reply', why: 'automatic' };
  return undefined;
}

// The door's replies (D41): code, enhanced status (RFC 2034, RFC 3463) and text; and how a reply is written out.

import type { Unavailable } from '../../base/errors.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { type RejectionCode, rejections, type Violation } from '../../pipeline/submit.ts';
import type { EntryLink } from '../../spool/journal/journal-row.ts';

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff
    ? `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`
    : `\\u{${code.toString(16).toUpperCase()}}`;
}

/** Escapes all but printable ASCII (`\xC3`, `\u{20AC}`), so that no client's text ends a line. @param maxOctets cut there by `...` */
export function printableAscii(text: string, maxOctets: number): string {
  // Text beyond this length cannot appear in the result, so it is not examined.
  const escaped = text.slice(0, maxOctets + 1).replace(/[^\x20-\x7e]/gu, escapeCharacter);
  return escaped.length <= maxOctets ? escaped : `${escaped.slice(0, maxOctets - 3)}...`;
}

/** RFC 5321 §4.5.3.1.5: a reply line has at most 512 octets, CRLF included. */
const maxReplyLineOctets = 512;

/** The reply to a message over the limit, and to one that is so far over it that its octets are not read to the end. */
export function tooLarge(limitOctets: number, isFlood = false): Answer & { readonly enhanced: string } {
  const text = `The message is ${isFlood ? 'far ' : ''}larger than the limit of ${limitOctets} octets`;
  return { code: 552, enhanced: '5.3.4', text, ...(isFlood ? { next: 'close' } : {}) };
}

/** A reply, and what the session does after it. */
export interface Answer extends SmtpReply {
  /** `data`: the octets of the message follow; `starttls`: the TLS handshake; `close`: the session is over. */
  readonly next?: 'close' | 'starttls' | 'data';
  readonly also?: SmtpReply;
}

/** The replies whose text never changes. */
export const replies = {
  ok: { code: 250, enhanced: '2.0.0', text: 'Ok' },
  senderOk: { code: 250, enhanced: '2.1.0', text: 'Ok' },
  recipientOk: { code: 250, enhanced: '2.1.5', text: 'Ok' },
  startData: { code: 354, text: 'End data with <CR><LF>.<CR><LF>', next: 'data' },
  startTls: { code: 220, enhanced: '2.0.0', text: 'Ready to start TLS', next: 'starttls' },
  bye: { code: 221, enhanced: '2.0.0', text: 'Bye', next: 'close' },
  help: {
    code: 214,
    enhanced: '2.0.0',
    text: 'Commands: EHLO HELO STARTTLS AUTH MAIL RCPT DATA RSET NOOP VRFY HELP QUIT (RFC 5321)',
  },
  cannotVerify: { code: 252, enhanced: '2.0.0', text: 'Cannot verify, send the message to find out' },
  authenticated: { code: 235, enhanced: '2.7.0', text: 'Authentication successful' },
  challenge: { code: 334, text: '' },
  userNameChallenge: { code: 334, text: 'VXNlcm5hbWU6' },
  passwordChallenge: { code: 334, text: 'UGFzc3dvcmQ6' },

  overlongLine: { code: 500, enhanced: '5.5.2', text: 'Command line too long' },
  endlessLine: { code: 500, enhanced: '5.5.2', text: 'Command line too long', next: 'close' },
  bareLineEnd: { code: 500, enhanced: '5.5.2', text: 'Bare CR or LF in a command line', next: 'close' },
  emptyLine: { code: 500, enhanced: '5.5.2', text: 'Empty command line' },
  notSmtp: { code: 500, enhanced: '5.5.1', text: 'This is SMTP, not HTTP', next: 'close' },
  unknownCommand: { code: 500, enhanced: '5.5.1', text: 'Command not known' },
  notImplemented: { code: 502, enhanced: '5.5.1', text: 'Command not implemented' },
  // The connection is closed because the octets of a chunk would follow and be read as commands.
  noChunking: { code: 502, enhanced: '5.5.1', text: 'CHUNKING is not offered', next: 'close' },
  noParameters: { code: 501, enhanced: '5.5.4', text: 'This command takes no parameters' },
  // RFC 2034 §3: no enhanced code in an answer to HELO or EHLO.
  heloSyntax: { code: 501, text: 'Syntax: EHLO domain' },
  vrfySyntax: { code: 501, enhanced: '5.5.4', text: 'Syntax: VRFY address' },
  authSyntax: { code: 501, enhanced: '5.5.4', text: 'Syntax: AUTH mechanism [initial-response]' },
  mailSyntax: { code: 501, enhanced: '5.5.4', text: 'Syntax: MAIL FROM:<address> [parameters]' },
  rcptSyntax: { code: 501, enhanced: '5.5.4', text: 'Syntax: RCPT TO:<address> [parameters]' },
  badSender: { code: 501, enhanced: '5.1.7', text: 'The reverse-path is no valid address' },
  badRecipient: { code: 501, enhanced: '5.1.3', text: 'The forward-path is no valid address' },
  senderWithoutDomain: { code: 553, enhanced: '5.1.7', text: 'The reverse-path has no domain' },
  recipientWithoutDomain: { code: 553, enhanced: '5.1.3', text: 'The forward-path has no domain' },
  needsSmtputf8: { code: 553, enhanced: '5.6.7', text: 'A non-ASCII address needs SMTPUTF8 and valid UTF-8' },
  badSize: { code: 501, enhanced: '5.5.4', text: 'SIZE is a number of at most 20 digits' },
  badBody: { code: 501, enhanced: '5.5.4', text: 'BODY is 7BIT or 8BITMIME' },
  badRet: { code: 501, enhanced: '5.5.4', text: 'RET is FULL or HDRS' },
  badEnvid: { code: 501, enhanced: '5.5.4', text: 'ENVID is xtext of 1 to 100 characters (RFC 3461)' },
  badNotify: { code: 501, enhanced: '5.5.4', text: 'NOTIFY is NEVER, or a list of SUCCESS, FAILURE and DELAY' },
  badOrcpt: {
    code: 501,
    enhanced: '5.5.4',
    text: 'ORCPT is an address type, a semicolon and an encoded address, 500 characters at most (RFC 3461, RFC 6533)',
  },
  requireTlsWithoutTls: { code: 530, enhanced: '5.7.0', text: 'REQUIRETLS needs a session under TLS' },
  noRoom: { code: 452, enhanced: '4.3.1', text: 'Too much mail is under way, try again later' },

  sayHelloFirst: { code: 503, enhanced: '5.5.1', text: 'Send EHLO first' },
  nestedMail: { code: 503, enhanced: '5.5.1', text: 'A transaction is already open' },
  mailFirst: { code: 503, enhanced: '5.5.1', text: 'Send MAIL first' },
  noRecipients: { code: 554, enhanced: '5.5.1', text: 'No valid recipients' },
  tlsAlready: { code: 503, enhanced: '5.5.1', text: 'TLS is already active' },
  tlsNotOffered: { code: 502, enhanced: '5.5.1', text: 'STARTTLS is not offered' },
  authNotOffered: { code: 502, enhanced: '5.5.1', text: 'AUTH is not offered here' },
  authAlready: { code: 503, enhanced: '5.5.1', text: 'Already authenticated' },
  authInTransaction: { code: 503, enhanced: '5.5.1', text: 'AUTH is not allowed inside a transaction' },

  mustStartTls: { code: 530, enhanced: '5.7.0', text: 'Must issue STARTTLS first' },
  tokenGone: { code: 530, enhanced: '5.7.0', text: 'This token is no longer valid, authentication required' },
  authRequired: { code: 530, enhanced: '5.7.0', text: 'Authentication required' },
  authNeedsTls: { code: 538, enhanced: '5.7.11', text: 'Encryption required for authentication' },
  unknownMechanism: { code: 504, enhanced: '5.5.4', text: 'Mechanisms are PLAIN and LOGIN' },
  authCancelled: { code: 501, enhanced: '5.7.0', text: 'Authentication cancelled' },
  badBase64: { code: 501, enhanced: '5.5.2', text: 'Cannot decode base64' },
  badPlain: { code: 501, enhanced: '5.5.2', text: 'PLAIN is [authzid] NUL user NUL password' },
  badCredentials: { code: 535, enhanced: '5.7.8', text: 'Authentication credentials invalid' },
  scopeMissing: { code: 535, enhanced: '5.7.8', text: 'This token lacks the scope email:send' },

  tooManyErrors: { code: 421, enhanced: '4.7.0', text: 'Too many errors', next: 'close' },
  tooManyAuthFailures: { code: 421, enhanced: '4.7.0', text: 'Too many authentication failures', next: 'close' },
  tooManyConnections: { code: 421, enhanced: '4.7.0', text: 'Too many connections', next: 'close' },
  authTimeout: { code: 421, enhanced: '4.7.0', text: 'Not authenticated in time', next: 'close' },
  timeout: { code: 421, enhanced: '4.4.2', text: 'Timeout', next: 'close' },
  tooSlow: { code: 421, enhanced: '4.4.2', text: 'The message comes too slowly', next: 'close' },
  shuttingDown: { code: 421, enhanced: '4.3.2', text: 'Shutting down', next: 'close' },
  storeUnavailable: { code: 451, enhanced: '4.3.0', text: 'Mail cannot be kept at the moment, try again later' },
  noDisk: { code: 452, enhanced: '4.3.1', text: 'There is no room for mail at the moment, try again later' },
  internalError: { code: 451, enhanced: '4.3.0', text: 'Internal error' },
  earlyTalker: { code: 554, enhanced: '5.5.0', text: 'Protocol error: you spoke before the greeting', next: 'close' },
  notAllowedFrom: { code: 554, enhanced: '5.7.1', text: 'Your address may not use this listener', next: 'close' },
} as const satisfies Record<string, Answer>;

/** The reply where something that the gateway itself needs is unavailable now. */
export function unavailableReply({ reason, message }: Unavailable): Answer {
  if (reason === 'share') return { ...replies.noDisk, text: message };
  return reason === 'room' ? replies.noDisk : replies.storeUnavailable;
}

const plainText = /^[\x20-\x7e]*$/;

/** One line of a reply's text as it is sent: text quoted from a client can neither end the line nor hold non-ASCII. */
function lineText(text: string, frameOctets: number): string {
  const room = maxReplyLineOctets - frameOctets;
  return text.length <= room && plainText.test(text) ? text : printableAscii(text, room);
}

/**
 * Writes a reply out; every reply to a client goes through here. Every line has the code and the enhanced status (RFC 2034
 * §4), ends with CRLF and has at most 512 octets of printable ASCII (RFC 5321 §4.2); anything else in the text is escaped
 * (`\xA7`).
 * @param reply its text has a line feed between lines
 */
export function formatReply(reply: SmtpReply): string {
  const status = reply.enhanced === undefined ? '' : `${reply.enhanced} `;
  const frameOctets = '250 '.length + status.length + '\r\n'.length;
  // Most replies are one line.
  if (!reply.text.includes('\n')) return `${reply.code} ${status}${lineText(reply.text, frameOctets)}\r\n`;
  const lines = reply.text.split('\n');
  const last = lines.length - 1;
  return lines
    .map((line, index) => `${reply.code}${index < last ? '-' : ' '}${status}${lineText(line, frameOctets)}\r\n`)
    .join('');
}

/** `554-5.7.1 ` and CRLF. */
const refusalFrameOctets = 12;
const maxLines = 20;

/** Writes violations, at least one, as one reply: a line for each in their order (D2), all with the code of the first (D7). */
export function refusalReply(violations: readonly Violation[]): Answer {
  const first: RejectionCode = violations[0]?.code ?? 'E_INTERNAL_SERVER_ERROR';
  const { smtpCode, enhanced } = rejections[first];
  const room = maxReplyLineOctets - refusalFrameOctets;
  const lines = violations.slice(0, maxLines).map(({ code, message }) => printableAscii(`${code}: ${message}`, room));
  const rest = violations.length - maxLines;
  if (rest > 0) lines.push(`and ${rest} more`);
  return { code: smtpCode, enhanced, text: lines.join('\n') };
}

/** Puts the link to the journal's entry behind a refusal, as its last line. @param id of the entry; undefined: no link */
export function withLink(answer: Answer, link: EntryLink | undefined, id: string | undefined): Answer {
  if (!link || id === undefined) return answer;
  return { ...answer, text: `${answer.text}\nSee ${link.urlOf(id)}` };
}

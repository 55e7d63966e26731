// Keeps what is said in a session, for the journal: the lines of the session's beginning, and those of the transaction under
// way. No secret is kept: a line is written down only where its command can have none.

import type { SessionTls, Transcript } from '../../../mail/transcript.ts';

const lineCharacters = 300;
/** Lines that are kept of a session's beginning, and of one transaction; of those beyond, only the last few. */
const beginningLines = 40;
const transactionLines = 120;
const lastLines = 6;

/** Commands whose line is kept as it came. */
const plainCommands: ReadonlySet<string> = new Set(['EHLO', 'HELO', 'MAIL', 'RCPT']);
/** Commands of which only the verb is kept: they have no argument, or one that says nothing about a message. */
const barredCommands: ReadonlySet<string> = new Set(['DATA', 'RSET', 'QUIT', 'STARTTLS', 'NOOP', 'VRFY', 'HELP']);
/** The parameter AUTH of MAIL, which names somebody who logged in (RFC 4954 §5). */
const loginParameter = /( AUTH=)[^ ]+/gi;
const mechanism = /^AUTH[ \t]+(PLAIN|LOGIN)\b/i;
const controls = /[\0-\x1f\x7f-\x9f]/;
const everyControl = /[\0-\x1f\x7f-\x9f]/g;

function keptOf(line: Buffer): string {
  const start = line.toString('utf8', 0, lineCharacters);
  const blank = start.indexOf(' ');
  const command = (blank < 0 ? start : start.slice(0, blank)).toUpperCase();
  if (plainCommands.has(command)) {
    const kept = start.includes('=') ? start.replaceAll(loginParameter, '$1[not kept]') : start;
    return controls.test(kept) ? kept.replace(everyControl, '?') : kept;
  }
  if (barredCommands.has(command)) return command;
  // People and programs type secrets into the wrong place: whatever is no known command may be one.
  const found = mechanism.exec(start);
  if (found) return `AUTH ${(found[1] ?? '').toUpperCase()} [not kept]`;
  return `[${line.length} octets that are no known command, not kept]`;
}

/** Some lines, bounded: the first ones, and the last few of the others. */
class Lines {
  readonly #most: number;
  #count = 0;
  #first = '';
  readonly #last: string[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  add(line: string): void {
    this.#count += 1;
    if (this.#count <= this.#most) {
      this.#first += line;
      return;
    }
    this.#last.push(line);
    if (this.#last.length > lastLines) this.#last.shift();
  }

  text(): string {
    const left = this.#count - this.#most - this.#last.length;
    const gap = left > 0 ? `- 0 ${left} lines are not kept\n` : '';
    return this.#first + gap + this.#last.join('');
  }
}

/** The record of one session. */
export class SessionTranscript {
  readonly #began: number;
  readonly #beginning = new Lines(beginningLines);
  #lines = this.#beginning;
  #tls: SessionTls | undefined;
  #dataSince = 0;
  #readMs = 0;

  /** @param now milliseconds of the monotonic clock, here and below */
  constructor(now: number) {
    this.#began = now;
  }

  /** The client has sent a line. @param isSecret it answers a challenge of AUTH */
  client(line: Buffer, now: number, isSecret: boolean): void {
    const first = line[0] ?? 0;
    // `M`: each MAIL begins a transaction of its own.
    if ((first === 0x4d || first === 0x6d) && !isSecret && /^mail /i.test(line.toString('latin1', 0, 5)))
      this.#lines = new Lines(transactionLines);
    this.#add('C', now, isSecret ? '[response to AUTH, not kept]' : keptOf(line));
  }

  /** The server has answered. @param text as it is sent, with its line ends */
  server(text: string, now: number): void {
    // Most replies are one line.
    if (text.indexOf('\r\n') === text.length - 2) this.#add('S', now, text.slice(0, -2));
    else for (const line of text.split('\r\n')) if (line !== '') this.#add('S', now, line);
  }

  /** TLS is up: what was said in the clear before still belongs to the beginning. */
  secured(tls: SessionTls | undefined): void {
    this.#tls = tls;
  }

  dataBegins(now: number): void {
    this.#dataSince = now;
  }

  dataEnded(now: number): void {
    this.#readMs = Math.round((now - this.#dataSince) * 100) / 100;
  }

  /** The record of the transaction under way; it keeps what is said of it from now on, too. */
  ofTransaction(): Transcript {
    const [beginning, lines, tls] = [this.#beginning, this.#lines, this.#tls];
    return {
      text: () => (lines === beginning ? '' : beginning.text()) + lines.text(),
      tls: () => tls,
      readMs: this.#readMs,
    };
  }

  #add(who: 'C' | 'S', now: number, text: string): void {
    const kept = text.length > lineCharacters ? text.slice(0, lineCharacters) : text;
    this.#lines.add(`${who} ${Math.round(now - this.#began)} ${kept}\n`);
  }
}

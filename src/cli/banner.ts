// What a newcomer sees at the start of the embedded default (D95): the token, once, and commands to try it with; at later
// starts, which token counts.
// It goes to standard error, never through the log.

import { join } from 'node:path';
import type { DevelopmentToken } from '../bootstrap.ts';
import { formatHostPort } from '../config/addresses.ts';
import type { Listening } from '../wiring/addresses.ts';

/** What the banner is about. */
export interface BannerFacts {
  readonly token: string;
  readonly account: string;
  /** A sending domain of that account. */
  readonly domain: string;
  readonly listening: readonly Listening[];
  /** Name of the listener that takes STARTTLS. */
  readonly listenerName: string;
  /** PEM file of the certificate that the listener shows. */
  readonly certificateFile: string;
  /** The Maildir that captured mail lands in; absent when mail is relayed. */
  readonly captureFolder?: string;
}

/** What a start found instead of making a token (D95). */
export type TokenNote = Exclude<DevelopmentToken, { readonly kind: 'made' }>;

/** No more tokens than this are named. */
const tokensNamed = 5;

function endings(lastFour: readonly string[]): string {
  const named = lastFour.slice(-tokensNamed).map((four) => `...${four}`);
  const more = lastFour.length - named.length;
  return `${lastFour.length === 1 ? 'the token' : 'the tokens'} ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Says which token counts where none is shown, what became of an earlier one, and how to get another; with line ends. */
export function renderTokenNote(note: TokenNote): string {
  const { account, credential } = note;
  const create = `postern token create --account ${account} --credential ${credential}`;
  const another = `For another: ${create}`;
  if (note.kind === 'kept') {
    return `
Postern is ready. No token is shown: credential ${account}/${credential} has ${endings(note.lastFour)}, shown when made.
${another}

`;
  }
  const gone =
    note.revoked.length === 0
      ? ''
      : `It replaces ${endings(note.revoked)} of an earlier start, revoked from now on, and at later starts without POSTERN_TOKEN too.
`;
  return `
Postern is ready. The token of credential ${account}/${credential} is the value of POSTERN_TOKEN, while that is set.
${gone}${another}

`;
}

/** The API's own listener, which comes last where there is one; a listener of mail, before those of HTTP, may have its name. */
function adminOf(listening: BannerFacts['listening']): Listening | undefined {
  const last = listening.at(-1);
  return last?.name === 'admin' ? last : undefined;
}

/** Where the API is, if not on the public listeners. */
function adminLine({ listening }: BannerFacts): string {
  const admin = adminOf(listening);
  if (!admin) return '';
  return `\nThe HTTP interface, its reference and /metrics are at http://${placeOf(admin)}/ alone (http.adminListen).\n`;
}

function shown(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}

/** Where a client on this machine reaches a listener, as `host:port`. */
function placeOf({ host, port }: Listening): string {
  return formatHostPort({ host: shown(host), port });
}

/** The same by HTTP (D43), at the API's own listener where there is one. */
function rest({ listening, account, token }: BannerFacts, from: string): string {
  const http = adminOf(listening) ?? listening.find(({ name }) => name === 'http');
  if (!http) return '';
  return `
  curl 'http://${placeOf(http)}/client/v4/accounts/${account}/email/sending/send' \\
    -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' \\
    -d '{"from": "${from}", "to": "you@example.net", "subject": "Hello", "text": "A first message."}'
`;
}

/** The banner's text, with line ends. */
export function renderBanner(facts: BannerFacts): string {
  const listener = facts.listening.find(({ name }) => name === facts.listenerName);
  if (!listener) return `\nToken of ${facts.account}, shown this once: ${facts.token}\n\n`;
  const host = shown(listener.host);
  const target = `${host}:${listener.port}`;
  const from = `hello@${facts.domain}`;
  const result = facts.captureFolder
    ? `Each prints the Message-ID; the signed message is then in
  ${join(facts.captureFolder, 'new')}`
    : 'Each prints the Message-ID; the message is then relayed by the configured route.';
  return `
Postern is ready. Token of account "${facts.account}", shown this once:

  ${facts.token}

Send a first message with any of these:

  swaks --server ${target} --tls --auth PLAIN --auth-user api_token --auth-password '${facts.token}' \\
    --from ${from} --to you@example.net --header 'Subject: Hello' --body 'A first message.'

  printf 'From: ${from}\\r\\nTo: you@example.net\\r\\nSubject: Hello\\r\\n\\r\\nA first message.\\r\\n' |
    curl --ssl-reqd --cacert '${facts.certificateFile}' --url 'smtp://${target}' --user 'api_token:${facts.token}' \\
    --mail-from ${from} --mail-rcpt you@example.net --upload-file - -v
${rest(facts, from)}${adminLine(facts)}
${result}

`;
}

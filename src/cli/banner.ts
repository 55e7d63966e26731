// What a start in development prints (D95) on standard error, never through the log: the new token, once, or which one counts.

import { join } from 'node:path';
import type { DevelopmentToken } from '../app/bootstrap/bootstrap.ts';
import { reachable } from '../app/config/addresses.ts';
import type { Listening } from '../app/wiring/addresses.ts';
import { hostPort } from '../base/net/socket-address.ts';

/** What the banner tells. */
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
  /** What `renderSignIn` says; '' without a console. */
  readonly consoleText: string;
  /** The Maildir that captured mail lands in; absent when mail is relayed. */
  readonly captureFolder?: string;
}

const tokensNamed = 5;

function endings(lastFour: readonly string[]): string {
  const named = lastFour.slice(-tokensNamed).map((four) => `...${four}`);
  const more = lastFour.length - named.length;
  return `${lastFour.length === 1 ? 'the token' : 'the tokens'} ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** For a start that shows no token: which one counts, which were revoked, and how to make another. @param consoleText of `renderSignIn` */
export function renderTokenNote(note: Exclude<DevelopmentToken, { readonly kind: 'made' }>, consoleText = ''): string {
  const { account, credential } = note;
  const create = `postern token create --account ${account} --credential ${credential}`;
  const another = `For another: ${create}`;
  if (note.kind === 'kept') {
    return `
Postern is ready. No token is shown: credential ${account}/${credential} has ${endings(note.lastFour)}, shown when made.
${another}
${consoleText}
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
${consoleText}
`;
}

/** The API's own listener, if there is one. It comes last; a listener of mail, which comes earlier, may have the same name. */
function adminOf(listening: BannerFacts['listening']): Listening | undefined {
  const last = listening.at(-1);
  return last?.name === 'admin' ? last : undefined;
}

/** A line that tells where the API is, where it has a listener of its own. */
function adminLine({ listening }: BannerFacts): string {
  const admin = adminOf(listening);
  if (!admin) return '';
  return `\nThe HTTP interface, its reference and /metrics are at http://${addressOf(admin)}/ alone (http.adminListen).\n`;
}

/** Where a client on this machine reaches a listener, as `host:port`. */
function addressOf(listening: Listening): string {
  const { host, port } = reachable(listening);
  return hostPort(host, port);
}

/** The command that sends the message by HTTP (D43), to the API's own listener where there is one. */
function rest({ listening, account, token }: BannerFacts, from: string): string {
  const http = adminOf(listening) ?? listening.find(({ name }) => name === 'http');
  if (!http) return '';
  return `
  curl 'http://${addressOf(http)}/client/v4/accounts/${account}/email/sending/send' \\
    -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' \\
    -d '{"from": "${from}", "to": "you@example.net", "subject": "Hello", "text": "A first message."}'
`;
}

/** The lines that show the link to the console; '' where there is none. @param path of the link @param publicUrl as configured */
export function renderSignIn(
  path: string | undefined,
  { publicUrl, listening }: { readonly publicUrl: string | undefined; readonly listening: readonly Listening[] },
): string {
  const http = adminOf(listening) ?? listening.find(({ name }) => name === 'http');
  if (path === undefined || (publicUrl === undefined && !http)) return '';
  const base = publicUrl ?? `http://${http ? addressOf(http) : ''}`;
  return `
The console shows every message, sent or refused, and why. This link signs in once, within 15 minutes:

  ${base}${path}
`;
}

/** The banner's text, with line ends. */
export function renderBanner(facts: BannerFacts): string {
  const listener = facts.listening.find(({ name }) => name === facts.listenerName);
  if (!listener) return `\nToken of ${facts.account}, shown this once: ${facts.token}\n${facts.consoleText}\n`;
  const target = addressOf(listener);
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
${facts.consoleText}
`;
}

// postern check gives the verdict on a message (D47) by the server's own code, and queues nothing.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Submitter } from '../accounts/account.ts';
import { type Accounts, createAccounts } from '../accounts/accounts.ts';
import { observePeriod } from '../accounts/observe-period.ts';
import { loadKeys } from '../app/bootstrap/bootstrap.ts';
import type { Config } from '../app/config/config.ts';
import { cureMerger } from '../app/config/merged-cure.ts';
import { buildParts } from '../app/wiring/build-parts.ts';
import { systemClock } from '../base/clock.ts';
import { didYouMean } from '../base/closest.ts';
import { errorMessage, UsageError } from '../base/errors.ts';
import { escapeCharacters } from '../base/escape-text.ts';
import { randomHex } from '../base/ids.ts';
import type { Envelope } from '../mail/envelope.ts';
import { readMessage } from '../mail/header/header-reader.ts';
import type { Explanation, HeaderExplanation } from '../pipeline/policy/explain.ts';
import type { FindSendingDomain } from '../pipeline/policy/judge-sender.ts';
import type { Violation } from '../pipeline/policy/rejections.ts';
import type { Submission } from '../pipeline/policy/submission.ts';
import { escapedText } from '../pipeline/report/print.ts';
import { offlineSubmission } from '../pipeline/report/rehearse.ts';
import { build, examine, examineObserved, type ObservedVerdict } from '../pipeline/submit.ts';
import { defineCommand, table } from './command/command.ts';
import { counted } from './command/printable.ts';
import { namedPaths, namesArchive, type Rehearsal, rehearseArchive } from './rehearsal.ts';
import { changeText } from './report.ts';

interface Verdict {
  readonly file: string;
  readonly explanation: Explanation;
  /** The violations of the header, then those of the body. */
  readonly violations: readonly Violation[];
  /** What would become of the message while the policy is only observed (D4c); absent where `--observe` was not given. */
  readonly observed?: ObservedVerdict;
  /** The message as it would leave. */
  readonly asSent?: string;
}

/** Makes line ends CRLF. A file saved on Unix often has LF alone, for which the server would refuse every header. */
function withSmtpLineEnds(octets: Buffer): Buffer {
  if (octets.includes('\r\n') || !octets.includes('\n')) return octets;
  return Buffer.from(octets.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
}

function readMessageFile(file: string, cwd: string): Buffer {
  try {
    return withSmtpLineEnds(readFileSync(file === '-' ? 0 : resolve(cwd, file)));
  } catch (cause) {
    throw new UsageError(`Cannot read "${file}": ${errorMessage(cause)}`, { cause });
  }
}

/** The submitter whose settings apply: the one named as `account/credential`, else that of development, else the first. */
function findSubmitter(config: Config, accounts: Accounts, named: string | undefined): Submitter {
  const [account = '', credential = ''] = (named ?? defaultSubmitter(config)).split('/');
  const found = accounts.submitter(account, credential);
  if (found) return found;
  const all = config.accounts.flatMap(({ name, credentials }) =>
    [...credentials.keys()].map((one) => `${name}/${one}`),
  );
  const which = didYouMean(`${account}/${credential}`, all, `there are ${all.join(', ')}`);
  throw new UsageError(`--as: no credential "${account}/${credential}"; ${which}`);
}

function defaultSubmitter({ development, accounts }: Config): string {
  if (development) return `${development.account}/${development.credential}`;
  const account = accounts.find(({ credentials }) => credentials.size > 0);
  if (!account) throw new UsageError('The configuration has no credential to judge the message for');
  return `${account.name}/${[...account.credentials.keys()][0]}`;
}

/** The reverse-path to assume: the one named (`<>` is null), else one that the account may use, so that From decides. */
function reversePathOf(named: string | undefined, { account }: Submitter): string {
  if (named !== undefined) return named.replace(/^<(.*)>$/, '$1');
  const domain = account.sendingDomains[0]?.name;
  return domain === undefined ? '' : `sender@${domain}`;
}

type Paths = Pick<Envelope, 'reversePath' | 'recipients'>;

function submissionOf(octets: Buffer, submitter: Submitter, paths: Paths): Submission {
  const message = { ...readMessage(octets), ...paths, size: octets.length };
  return offlineSubmission(message, submitter, randomHex(8));
}

function headerLine({ name, verdict, rule, standard, violation }: HeaderExplanation): readonly [string, string] {
  const why = violation ? reasonLine(violation) : `${rule}${standard ? ` (${standard})` : ''}`;
  return [`${printable(name)}: ${verdict}`, why];
}

/** A line for one reason. It quotes the message, perhaps in other scripts: only controls and reordering marks are escaped. */
function reasonLine({ code, message }: Violation): string {
  return `${code}: ${escapeCharacters(message, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu)}`;
}

/** Text of the message without what could control a terminal. */
function printable(text: string): string {
  return escapeCharacters(text, /[^\x20-\x7e]/g);
}

function reasonsOf({ violations, observed }: Verdict): readonly Violation[] {
  return observed?.violations ?? violations;
}

function summaryOf(verdict: Verdict): string {
  const { violations, observed } = verdict;
  if (violations.length === 0) return 'admitted';
  const reasons = counted(reasonsOf(verdict).length, 'reason');
  if (!observed) return `refused, ${reasons}`;
  if (observed.violations.length > 0) return `refused also while observed, ${reasons}`;
  return `admitted while observed, ${counted(observed.removed.length, 'header')} removed`;
}

function removedLine({ name, violation }: HeaderExplanation, code: Violation['code']): readonly [string, string] {
  const why =
    violation?.code === code ? reasonLine(violation) : `${code}: by the limits over all, or without the others removed`;
  return [`${printable(name)}: removed`, why];
}

function headerLines({ explanation, observed }: Verdict): (readonly [string, string])[] {
  const codes = new Map(observed?.removed.map(({ index, code }) => [index, code]));
  return explanation.headers.map((header, index) => {
    const code = codes.get(index);
    return code === undefined ? headerLine(header) : removedLine(header, code);
  });
}

function verdictText(verdict: Verdict): string {
  const { headers, usage, limits } = verdict.explanation;
  const shown = new Set(headers.flatMap(({ violation }) => (violation ? [violation.message] : [])));
  const rest = reasonsOf(verdict).filter(({ message }) => !shown.has(message));
  const lines = [
    `${escapedText(verdict.file)}: ${summaryOf(verdict)}`,
    ...table(headerLines(verdict)),
    ...rest.map((violation) => `  ${reasonLine(violation)}`),
    `  ${usage.allowlisted} of ${limits.allowlisted} allowlisted headers, ${usage.bytes} of ${limits.totalBytes} bytes`,
  ];
  return `${lines.join('\n')}\n`;
}

function verdictJson({ file, explanation, violations, observed: judged, asSent }: Verdict): string {
  const { headers, usage, limits } = explanation;
  const observed = judged && { admitted: judged.violations.length === 0, ...judged };
  const admitted = violations.length === 0;
  return `${JSON.stringify({ file, admitted, headers, violations, usage, limits, observed, asSent })}\n`;
}

/** postern check */
export const command = defineCommand({
  summary: 'Judge messages as the gateway would: each header’s verdict with its rule; nothing is sent',
  synopsis: 'FILE...',
  most: 10_000,
  details: `A FILE of - is standard input. A file with line ends of LF alone is read as if they were CRLF.
Of a folder, a Maildir or an mbox file every message is judged and a report is printed: what would be refused, by
mailer, how often, and the configuration or the change in the program that cures it.`,
  options: {
    as: {
      value: 'ACCOUNT/CREDENTIAL',
      summary: 'whose sending domains and settings apply (default: the development credential)',
    },
    from: {
      value: 'ADDRESS',
      summary: 'the reverse-path that is assumed, <> for a bounce (default: an address of the account)',
    },
    to: { value: 'ADDRESS', summary: 'the recipient that is assumed (default: recipient@example.net)' },
    observe: {
      summary: 'what would pass while the policy is observed (policy.observe), and the headers removed from it',
    },
    'as-sent': { summary: 'print the message as it would leave, signed; its verdict goes to standard error' },
    report: { summary: 'print the report for message files too' },
    apply: { summary: 'judge again with the configuration that the report proposes, and tell both shares' },
    json: { summary: 'one JSON object a file; one for a report' },
  },
  examples: [
    'postern check message.eml',
    'postern check --as dev/cron --json *.eml',
    "postern check --as dev/oldbox --from '<>' bounce.eml",
    'postern check --observe --as dev/oldbox message.eml',
    'postern check --as-sent message.eml > sent.eml',
    'postern check --as dev/oldbox --apply ~/Maildir/.Sent sent.mbox',
  ],
  exitCodes: {
    1: 'a message would be refused',
    78: 'the configuration is wrong, or a key that --as-sent needs is missing',
  },
  run: async ({ options, args, readConfig }, io) => {
    const config = readConfig();
    const accounts = createAccounts({ accounts: config.accounts, tokens: [], clock: systemClock });
    const submitter = findSubmitter(config, accounts, options.as);
    const paths = {
      reversePath: reversePathOf(options.from, submitter),
      recipients: [options.to ?? 'recipient@example.net'],
    };
    const wantsReport = options.report === true || options.apply === true;
    const archive = args.includes('-') ? [] : await namedPaths(args, io.cwd);
    if (wantsReport && archive.length === 0)
      throw new UsageError('--report and --apply want files, not standard input');
    if (wantsReport || (await namesArchive(archive))) {
      if (options['as-sent']) throw new UsageError('--as-sent wants messages in files of their own');
      const sendingDomain: FindSendingDomain = (account, domain) => accounts.sendingDomain(account, domain);
      const parts = { submitter, ...paths, sendingDomain, messageBytes: config.smtp.limits.messageBytes };
      const source = { file: config.file, env: io.env, cwd: io.cwd };
      const place = { account: submitter.account.name, credential: submitter.credential.name };
      const change: Rehearsal['change'] = (lines) => changeText(config.file, cureMerger(source)(place, lines));
      const { apply = false, json = false } = options;
      return await rehearseArchive({ paths: archive, parts, apply, json, change }, io);
    }
    let exitCode = 0;
    const judging = { accounts, config, asSent: options['as-sent'] === true, observe: options.observe === true };
    for (const file of args) {
      const submission = submissionOf(readMessageFile(file, io.cwd), submitter, paths);
      const verdict = await judge(file, submission, judging);
      if (options.json) io.stdout.write(verdictJson(verdict));
      else (judging.asSent ? io.stderr : io.stdout).write(verdictText(verdict));
      if (!options.json && verdict.asSent !== undefined) io.stdout.write(verdict.asSent);
      if (reasonsOf(verdict).length > 0) exitCode = 1;
    }
    return exitCode;
  },
});

/** `--observe` asks what observing does, not until when the configuration observes: this period never ends. */
const always = observePeriod('9999-12-31');

interface Judging {
  readonly accounts: Accounts;
  readonly config: Config;
  readonly asSent: boolean;
  readonly observe: boolean;
}

async function judge(
  file: string,
  given: Submission,
  { accounts, config, asSent, observe }: Judging,
): Promise<Verdict> {
  const submission = observe ? { ...given, observe: always } : given;
  const parts: Parameters<typeof examineObserved>[1] = {
    hostname: config.smtp.hostname,
    sendingDomain: (account, domain) => accounts.sendingDomain(account, domain),
  };
  const { explanation, violations } = await examine(submission, parts);
  const observed = observe ? { observed: await examineObserved(submission, parts) } : {};
  const verdict = { file, explanation, violations, ...observed };
  if (!asSent || reasonsOf(verdict).length > 0) return verdict;
  const built = await build(submission, buildParts(config, loadKeys(config), accounts, systemClock));
  if (!built.ok) return { file, explanation, violations: built.violations };
  const { head, body } = built.signed;
  return { ...verdict, asSent: head.toString('utf8') + body.toString('latin1') };
}

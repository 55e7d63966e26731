import { constants, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import type { Account } from '../accounts/account.ts';
import type { Config, ConfigSource } from '../app/config/config.ts';
import { cureMerger, type MergeCure, type MergedCure } from '../app/config/merged-cure.ts';
import { judgedBy } from '../app/wiring/build-parts.ts';
import { engineOf, rowsPerAccount } from '../app/wiring/engine/open-stores.ts';
import { UsageError } from '../base/errors.ts';
import { readArchive } from '../pipeline/report/archive/archive-files.ts';
import { archivedMessage } from '../pipeline/report/archive/archived-message.ts';
import type { CredentialReport } from '../pipeline/report/findings.ts';
import { type KitFormat, kitFormats, kitLines } from '../pipeline/report/kits.ts';
import { counted, credentialJson, credentialText, printableJson } from '../pipeline/report/print.ts';
import { findingsOfEvents } from '../pipeline/report/read-events.ts';
import {
  compareJournal,
  comparisonText,
  type JournalWanted,
  judgeKeptBy,
  type PartsOf,
  rehearse,
  VerdictComparison,
} from '../pipeline/report/rehearse.ts';
import { chooseAccount } from './command/choose-account.ts';
import { type CommandIo, defineCommand, isYes, print } from './command/command.ts';
import { parseSpan, parseWord } from './command/span.ts';
import { tellProgress } from './command/tell-progress.ts';
import { withQueue } from './queue/open-queue.ts';
import { namedPaths } from './rehearsal.ts';

function accountNamed(config: Config, name: string): Account | undefined {
  return config.accounts.find((account) => account.name === name);
}

/** Tells where in the file the proposed lines go, as a diff; nothing where the text alone cannot be changed so. */
export function changeText(file: string, change: MergedCure | undefined): string {
  if (!change) return '';
  return `  Replace these lines of ${file}, line ${change.line}; the configuration is valid with them:\n\n${change.diff}\n`;
}

function changeOf(merge: MergeCure, { account, credential, proposal }: CredentialReport): MergedCure | undefined {
  return Object.keys(proposal).length === 0 ? undefined : merge({ account, credential }, proposal);
}

/** Writes the changes of all reports into the file, once somebody has said yes, with what stood there beside it. */
async function applyChanges(
  reports: readonly CredentialReport[],
  { file, source, yes }: { readonly file: string; readonly source: ConfigSource; readonly yes: boolean },
  io: CommandIo,
): Promise<number> {
  const before = readFileSync(file, 'utf8');
  let text = before;
  for (const report of reports) text = changeOf(cureMerger({ ...source, text }), report)?.after ?? text;
  if (text === before) return print(io, `Nothing to change in ${file}`);
  const answer = yes ? 'yes' : ((await io.ask?.(`Write these changes into ${file}? [y/N] `)) ?? '');
  if (!isYes(answer)) {
    print(io, 'Nothing was changed');
    return 1;
  }
  if (readFileSync(file, 'utf8') !== before) throw new Error(`${file} was changed meanwhile; run the command again`);
  const backup = `${file}.${new Date().toISOString().replaceAll(':', '-')}.bak`;
  copyFileSync(file, backup, constants.COPYFILE_EXCL);
  // Written in place: a file that is mounted into a container cannot be replaced by another.
  writeFileSync(file, text);
  return print(io, `Changed ${file}; what stood there is in ${backup}. Run postern reload.`);
}

function formatOf(word: string | undefined): KitFormat | undefined {
  return word === undefined ? undefined : parseWord(word, '--format', kitFormats);
}

function shadowed(word: string | undefined): boolean | undefined {
  return word === undefined ? undefined : parseWord(word, '--shadow', ['only', 'without']) === 'only';
}

interface Telling {
  /** The server for which rules are written in place of the reports. */
  readonly format: KitFormat | undefined;
  readonly json?: true;
  readonly apply?: true;
  readonly yes?: true;
}

/** Tells what was refused, by the stored events. @returns the exit code */
async function tellRefused(config: Config, wanted: JournalWanted, telling: Telling, io: CommandIo): Promise<number> {
  const tell = tellProgress(io);
  const findings = await withQueue(config, ({ spool }) =>
    findingsOfEvents(spool.events, {
      ...wanted,
      sendingDomains: (name) => accountNamed(config, name)?.sendingDomains.map((domain) => domain.name) ?? [],
      onProgress: (done, all) => tell(`Reading events: ${Math.floor((done / all) * 100)} %`),
    }),
  );
  const reports = findings.report((name, one) => accountNamed(config, name)?.credentials.get(one));
  if (telling.format !== undefined) {
    const sendingDomain = (name: string) => accountNamed(config, name)?.sendingDomains[0]?.name;
    return print(io, kitLines(telling.format, reports, sendingDomain));
  }
  const { file } = config;
  const source = { file, env: io.env, cwd: io.cwd };
  const merge = cureMerger(source);
  for (const report of reports) {
    const change = changeOf(merge, report);
    const told = change && { change: { file, line: change.line, diff: change.diff } };
    if (telling.json) print(io, printableJson({ ...credentialJson(report), ...told }));
    else io.stdout.write(`${credentialText(report).join('\n')}\n${changeText(file, change)}`);
  }
  if (telling.json) return 0;
  if (reports.length === 0) print(io, `Nothing was accepted or refused since ${new Date(wanted.since).toISOString()}`);
  if (findings.unlisted > 0)
    io.stderr.write(`${counted(findings.unlisted, 'reason')} of further kinds are not listed: there are too many\n`);
  if (!telling.apply) return 0;
  return await applyChanges(reports, { file, source, yes: telling.yes === true }, io);
}

interface Asked extends JournalWanted {
  /** Paths of an archive; empty: the journal is read. */
  readonly archive: readonly string[];
  readonly json: boolean;
}

/** Judges again, by another configuration, what the journal has kept. */
async function compareKept(config: Config, partsOf: PartsOf, asked: Asked, io: CommandIo) {
  return await withQueue(config, async ({ spool }) => {
    const engine = await engineOf(config);
    const limits = { ...config.journal, ...rowsPerAccount(config) };
    const hooks = { caughtUp: () => spool.events.caughtUp(), onRemoved: () => undefined };
    const { journal } = await engine.openJournal(limits, hooks);
    try {
      const { since, account, credential, shadow } = asked;
      const tell = tellProgress(io);
      const onProgress = (done: number): void => tell(`Judged again: ${counted(done, 'message')}`);
      return await compareJournal(
        journal,
        { since, account, credential, shadow },
        { judge: judgeKeptBy(partsOf), onProgress },
      );
    } finally {
      await journal.close();
    }
  });
}

/** Judges each message of an archive by both configurations. */
async function compareArchive(now: PartsOf, then: PartsOf, asked: Asked): Promise<VerdictComparison> {
  const { account = '', credential = '', archive } = asked;
  const present = now(account, credential);
  if (!present) throw new UsageError('An archive is judged as a credential: give --account and --credential');
  const other = then(account, credential);
  const comparison = new VerdictComparison();
  const domain = present.submitter.account.sendingDomains[0]?.name;
  const about = { reversePath: domain === undefined ? '' : `check@${domain}`, recipients: ['recipient@example.net'] };
  for await (const entry of readArchive(archive, { most: present.messageBytes })) {
    if (entry.kind === 'skipped') {
      comparison.notKept += 1;
      continue;
    }
    const message = archivedMessage(entry);
    const { mailer, accepted } = await rehearse(message, { ...present, ...about });
    const reasons = other ? (await rehearse(message, { ...other, ...about })).reasons : [{ code: 'E_UNAUTHORIZED' }];
    const codes = [...new Set(reasons.map(({ code }) => code))];
    const before = accepted ? 'accepted' : 'refused';
    comparison.add({ account, credential, mailer, id: message.name, before, codes });
  }
  return comparison;
}

/** Tells what another configuration would make of what came. @returns the exit code */
async function tellWouldPass(
  { config, other }: { readonly config: Config; readonly other: Config },
  asked: Asked,
  io: CommandIo,
): Promise<number> {
  const then = judgedBy(other);
  const comparison = await (asked.archive.length > 0
    ? compareArchive(judgedBy(config), then, asked)
    : compareKept(config, then, asked, io));
  const { notKept } = comparison;
  return print(io, asked.json ? printableJson({ mailers: comparison.rows(), notKept }) : comparisonText(comparison));
}

/** postern report tells what was refused, by credential and mailer, with its cure, from the stored events (D94). */
export const command = defineCommand({
  summary: 'Tell what was refused, by credential and mailer, and the configuration that cures it',
  details: `Reads the stored events beside a running server. Each reason has the lines of configuration or the change in the
program that cures it; under each credential stand the lines that cure all together, its present ones among them.`,
  synopsis: '[ARCHIVE...]',
  options: {
    since: { value: 'SPAN', summary: 'how far back: 12h, 7d, 4w (default: 7d; events are kept for 30 days)' },
    account: { value: 'ACCOUNT', summary: 'only of this account, by name or id' },
    credential: { value: 'NAME', summary: 'only of this credential' },
    shadow: { value: 'only|without', summary: 'only what shadow listeners judged, or without it' },
    with: { value: 'FILE', summary: 'judge again what the journal has kept, or an ARCHIVE, by this configuration' },
    format: { value: kitFormats.join('|'), summary: 'write rules by which the old server removes what is refused' },
    apply: { summary: 'write the changes into the configuration file, after asking' },
    yes: { summary: 'with --apply: do not ask' },
    json: { summary: 'one JSON object a credential and line' },
  },
  examples: [
    'postern report --since 7d',
    'postern report --account dev --credential cron --json',
    'postern report --credential oldbox --format postfix',
    'postern report --since 30d --with new.yaml',
    'postern report --account dev --credential oldbox --with new.yaml ~/sent.mbox',
  ],
  exitCodes: { 1: '--apply was not answered with yes' },
  run: async ({ options, args, readConfig }, io) => {
    if (options.apply && options.json) throw new UsageError('--apply prints text; leave --json out');
    if (options.apply && !options.yes && !io.ask) throw new UsageError('--apply asks at a terminal; or give --yes');
    const since = Date.now() - parseSpan(options.since ?? '7d', '--since');
    const format = formatOf(options.format);
    if (args.length > 0 && options.with === undefined)
      throw new UsageError(
        'ARCHIVE stands with --with; postern check --report judges one by the configuration in force',
      );
    const config = readConfig();
    const other = options.with === undefined ? undefined : readConfig(options.with);
    const { credential, json = false } = options;
    const account = options.account === undefined ? undefined : chooseAccount(config, options.account);
    const wanted = { since, account: account?.name, credential, shadow: shadowed(options.shadow) };
    if (other) {
      const archive = await namedPaths(args, io.cwd);
      return await tellWouldPass({ config, other }, { ...wanted, archive, json }, io);
    }
    if (account && credential !== undefined && !account.credentials.has(credential))
      throw new UsageError(`--credential: account ${account.name} has no credential "${credential}"`);
    return await tellRefused(config, wanted, { ...options, format }, io);
  },
});

import { constants, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import type { Account } from '../accounts/account.ts';
import type { Config, ConfigSource } from '../app/config/config.ts';
import { cureMerger, type MergeCure, type MergedCure } from '../app/config/merged-cure.ts';
import { UsageError } from '../base/errors.ts';
import type { CredentialReport } from '../pipeline/report/findings.ts';
import { type KitFormat, kitFormats, kitLines } from '../pipeline/report/kits.ts';
import { counted, credentialJson, credentialText, printableJson } from '../pipeline/report/print.ts';
import { findingsOfEvents } from '../pipeline/report/read-events.ts';
import { chooseAccount } from './command/choose-account.ts';
import { type CommandIo, defineCommand } from './command/command.ts';
import { ProgressLine } from './command/progress-line.ts';
import { parseSpan } from './command/span.ts';
import { withQueue } from './queue/open-queue.ts';
import { namedPaths } from './rehearsal.ts';
import { tellWouldPass } from './would-pass.ts';

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
  if (text === before) {
    io.stdout.write(`Nothing to change in ${file}\n`);
    return 0;
  }
  const answer = yes ? 'yes' : ((await io.ask?.(`Write these changes into ${file}? [y/N] `)) ?? '');
  if (!/^y(?:es)?$/i.test(answer.trim())) {
    io.stdout.write('Nothing was changed\n');
    return 1;
  }
  if (readFileSync(file, 'utf8') !== before) throw new Error(`${file} was changed meanwhile; run the command again`);
  const backup = `${file}.${new Date().toISOString().replaceAll(':', '-')}.bak`;
  copyFileSync(file, backup, constants.COPYFILE_EXCL);
  // Written in place: a file that is mounted into a container cannot be replaced by another.
  writeFileSync(file, text);
  io.stdout.write(`Changed ${file}; what stood there is in ${backup}. Run postern reload.\n`);
  return 0;
}

/** Reads --format. @throws UsageError */
function formatOf(word: string | undefined): KitFormat | undefined {
  const known = kitFormats.find((one) => one === word);
  if (word !== undefined && !known) throw new UsageError(`--format wants ${kitFormats.join(', ')}, got "${word}"`);
  return known;
}

/** Reads --shadow. @throws UsageError */
function shadowed(word: string | undefined): boolean | undefined {
  if (word === undefined) return undefined;
  if (word === 'only' || word === 'without') return word === 'only';
  throw new UsageError(`--shadow wants only or without, got "${word}"`);
}

/**
 * postern report tells what was refused, by credential and mailer, and the configuration that cures it. It reads the stored events
 * beside a running server (D94).
 */
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
    if (options.with !== undefined) {
      const [config, other] = [readConfig(), readConfig(options.with)];
      const { credential, json = false } = options;
      const account = options.account === undefined ? undefined : chooseAccount(config, options.account).name;
      const archive = await namedPaths(args, io.cwd);
      const asked = { since, account, credential, shadow: shadowed(options.shadow), archive, json };
      return await tellWouldPass({ config, other }, asked, io);
    }
    return withQueue(readConfig(), async ({ spool, config }) => {
      const account = options.account === undefined ? undefined : chooseAccount(config, options.account);
      const { credential } = options;
      if (account && credential !== undefined && !account.credentials.has(credential))
        throw new UsageError(`--credential: account ${account.name} has no credential "${credential}"`);
      const progress = new ProgressLine(io.stderr, 'Reading events');
      const findings = await findingsOfEvents(spool.events, {
        since,
        account: account?.name,
        credential,
        shadow: shadowed(options.shadow),
        sendingDomains: (name) => accountNamed(config, name)?.sendingDomains.map((domain) => domain.name) ?? [],
        onProgress: (done, all) => progress.show(done, all),
      }).finally(() => progress.end());
      const reports = findings.report((name, one) => accountNamed(config, name)?.credentials.get(one));
      if (format !== undefined) {
        const sendingDomain = (name: string) => accountNamed(config, name)?.sendingDomains[0]?.name;
        io.stdout.write(`${kitLines(format, reports, sendingDomain).join('\n')}\n`);
        return 0;
      }
      const source = { file: config.file, env: io.env, cwd: io.cwd };
      const merge = cureMerger(source);
      for (const report of reports) {
        const change = changeOf(merge, report);
        const told = change && { file: config.file, line: change.line, diff: change.diff };
        if (options.json)
          io.stdout.write(`${printableJson({ ...credentialJson(report), ...(told ? { change: told } : {}) })}\n`);
        else io.stdout.write(`${credentialText(report).join('\n')}\n${changeText(config.file, change)}`);
      }
      if (options.json) return 0;
      if (reports.length === 0)
        io.stdout.write(`Nothing was accepted or refused since ${new Date(since).toISOString()}\n`);
      if (findings.unlisted > 0)
        io.stderr.write(
          `${counted(findings.unlisted, 'reason')} of further kinds are not listed: there are too many\n`,
        );
      if (options.apply)
        return await applyChanges(reports, { file: config.file, source, yes: options.yes === true }, io);
      return 0;
    });
  },
});

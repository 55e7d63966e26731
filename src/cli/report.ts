// postern report tells what was refused, by credential and mailer, and the configuration that cures it. It reads the stored
// events beside a running server (D94).

import type { Account } from '../accounts/account.ts';
import type { Config } from '../app/config/config.ts';
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

/** Prints the reports of credentials, one after another. */
export function printCredentials(reports: readonly CredentialReport[], io: CommandIo): void {
  for (const report of reports) io.stdout.write(`${credentialText(report).join('\n')}\n`);
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

/** postern report */
export const reportCommand = defineCommand({
  name: 'report',
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
    json: { summary: 'one JSON object a credential and line' },
  },
  examples: [
    'postern report --since 7d',
    'postern report --account dev --credential cron --json',
    'postern report --credential oldbox --format postfix',
    'postern report --since 30d --with new.yaml',
    'postern report --account dev --credential oldbox --with new.yaml ~/sent.mbox',
  ],
  run: async ({ options, args, readConfig }, io) => {
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
      if (options.json) {
        for (const report of reports) io.stdout.write(`${printableJson(credentialJson(report))}\n`);
        return 0;
      }
      printCredentials(reports, io);
      if (reports.length === 0)
        io.stdout.write(`Nothing was accepted or refused since ${new Date(since).toISOString()}\n`);
      if (findings.unlisted > 0)
        io.stderr.write(
          `${counted(findings.unlisted, 'reason')} of further kinds are not listed: there are too many\n`,
        );
      return 0;
    });
  },
});

import { stringify } from 'yaml';
import { checkFiles } from '../app/bootstrap/check-files.ts';
import type { Config } from '../app/config/config.ts';
import { missingSecrets } from '../app/config/secrets.ts';
import { shownConfig } from '../app/wiring/console/shown-config.ts';
import { checkApplications } from '../app/wiring/load-settings.ts';
import { systemClock } from '../base/clock.ts';
import { ConfigurationError } from '../base/errors.ts';
import { hostPort } from '../base/net/socket-address.ts';
import { recipientRules } from '../delivery/router.ts';
import { errorPageFaults } from '../edge/custom/error-page.ts';
import { credentialLines, setSentences } from '../pipeline/report/settings.ts';
import { configOption, defineCommand, defineGroup, print, table } from './command/command.ts';
import { counted } from './command/printable.ts';

const exitCodes = {
  78: 'the configuration is wrong; every fault is told with file, line, column, path and what is wanted',
};

function names(list: readonly string[]): string {
  return list.length === 0 ? 'none' : list.join(', ');
}

/** What keeps mail from the recipients it names, for the summary. */
function safetyLines({ delivery }: Config): (readonly [string, string])[] {
  return recipientRules(delivery).flatMap(({ place, rule: { redirectAll, allowRecipients } }) => {
    const text =
      redirectAll === undefined
        ? `only whom ${counted(allowRecipients?.length ?? 0, 'pattern')} of allowRecipients name, the rest is captured`
        : `everything goes to ${redirectAll}`;
    return [['staging', `${place}: ${text}`] as const];
  });
}

/** What each named set that a credential has takes out, for the summary. */
function setLines({ accounts }: Config): (readonly [string, string])[] {
  const credentials = accounts.flatMap((account) => [...account.credentials.values()]);
  const named = credentials.flatMap((credential) => credentialLines([], credential).stripSets ?? []);
  return setSentences({ stripSets: [...new Set(named)] }).map((sentence) => ['stripSets', sentence] as const);
}

function summary(config: Config): string[] {
  const domains = config.accounts.flatMap((account) => account.sendingDomains.map(({ name }) => name));
  return table([
    ['platform', `${config.platform.domain}, bounces to ${config.platform.bounceDomain}`],
    ...config.smtp.listeners.map(({ name, role, tls, ...at }) => {
      return ['smtp', `${hostPort(at.host, at.port)} ${name} (${role}, tls ${tls})`] as const;
    }),
    ['http', hostPort(config.http.listen.host, config.http.listen.port)],
    ['https', config.http.tlsListen ? hostPort(config.http.tlsListen.host, config.http.tlsListen.port) : 'off'],
    ...(config.http.adminListen
      ? [['admin', hostPort(config.http.adminListen.host, config.http.adminListen.port)] as const]
      : []),
    ['routes', names(config.delivery.routes.map((route) => `${route.name} (${route.type})`))],
    ...safetyLines(config),
    ['accounts', names(config.accounts.map(({ name }) => name))],
    ['domains', names(domains)],
    ...setLines(config),
    ['zones', names(config.zones.map(({ name }) => name))],
    ['database', config.database.engine === 'sqlite' ? config.database.file : `PostgreSQL ${config.database.server}`],
    ['certs', config.certsDir],
    ['mode', config.development ? 'development' : 'production'],
  ]);
}

async function applicationFaults(config: Config): Promise<readonly string[]> {
  try {
    await checkApplications(config, systemClock);
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message.split('\n');
    throw error;
  }
}

const check = defineCommand({
  summary: 'Check a configuration file together with the environment',
  synopsis: '[FILE]',
  details:
    'Reads FILE (or what --config, POSTERN_CONFIG or config/postern.yaml name) and prints "ok" with a summary and the\n' +
    'warnings, or every fault on standard error. What "serve" would need is looked at where the file has none:\n' +
    'keys and certificates (there, readable, fitting one another, not expired), passwords and tokens in variables and\n' +
    'files. In development what is missing is made at the start and no fault. Warnings name what is allowed but hardly\n' +
    'meant, certificates that expire within 14 days or are not for the name of their host, and files of Error Pages that\n' +
    'cannot be served. --no-files leaves keys, certificates and secrets out, for a check where they are not, such as CI.',
  options: { ...configOption, 'no-files': { summary: 'do not look at keys, certificates and secrets' } },
  examples: [
    'postern config check',
    'postern config check /etc/postern.yaml',
    'POSTERN_RELAY=smtp://mail.example:25 postern config check',
  ],
  exitCodes,
  async run({ options, args, readConfig }, io) {
    const config = readConfig(args[0]);
    const applications = await applicationFaults(config);
    const secrets = options['no-files'] ? [] : missingSecrets(config, io.env);
    const files = options['no-files'] ? { faults: [], warnings: [] } : checkFiles(config, systemClock.now());
    const faults = [...applications, ...files.faults, ...(config.development ? [] : secrets)];
    const pages = errorPageFaults({ zones: config.zones, accounts: config.edgeAccounts });
    const lacking = config.development ? secrets : [];
    const warnings = [...config.warnings, ...lacking, ...files.warnings, ...pages];
    if (faults.length > 0) throw new ConfigurationError(faults.join('\n'), { warnings });
    return print(io, [`ok ${config.file}`, ...summary(config), ...warnings.map((warning) => `warning: ${warning}`)]);
  },
});

const show = defineCommand({
  summary: 'Print what the file, the environment and the defaults come to',
  synopsis: '[FILE]',
  details: 'YAML as the gateway reads it: defaults filled in, paths absolute, secrets hidden.',
  options: configOption,
  examples: ['postern config show', 'postern config show --config staging.yaml'],
  exitCodes,
  run({ args, readConfig }, io) {
    const shown = shownConfig(readConfig(args[0]));
    io.stdout.write(stringify(shown, { lineWidth: 120, aliasDuplicateObjects: false }));
    return 0;
  },
});

/** `postern config` checks the configuration and shows it. */
export const command = defineGroup({ check, show });

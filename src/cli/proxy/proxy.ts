// `postern proxy` exports the stored applications for operators who run a dedicated proxy (D94).

import { getServers } from 'node:dns';
import { writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { closest } from '../../base/closest.ts';
import { errorMessage, UsageError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { createCertificateFinder } from '../../base/net/find-certificate.ts';
import { parseListen, parsePort } from '../../config/addresses.ts';
import type { Config } from '../../config.ts';
import type { ForwardingPlan } from '../../proxy/application/application.ts';
import { proxyAccounts } from '../../proxy/application/proxy-accounts.ts';
import { exportPlans } from '../../proxy/export/export-plans.ts';
import { type ExportFormat, type ExportGap, type ExportSettings, exportFormats } from '../../proxy/export/exported.ts';
import { defaultDataPlaneLimits } from '../../proxy/plane/data-plane.ts';
import { readLimits } from '../../proxy/plane/read-limits.ts';
import { storedPlans } from '../../proxy/plane/stored-plans.ts';
import { openApplicationStore } from '../../proxy/store/sqlite-application-store.ts';
import type { Endpoint } from '../../proxy/traffic/proxy-header.ts';
import { withDatabase } from '../command/choose-account.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { defineGroup } from '../command/command-table.ts';
import { configExitCode, configFor } from '../command/load-config.ts';
import { listCommand } from './proxy-list.ts';

const defaultCaFile = '/etc/ssl/certs/ca-certificates.crt';

function formatOf(text: string | undefined): ExportFormat {
  const found = exportFormats.find((format) => format === text);
  if (found) return found;
  if (text === undefined) throw new UsageError(`--format: want one of ${exportFormats.join(', ')}`);
  const near = closest(text, [...exportFormats]);
  throw new UsageError(
    `--format: got "${text}", ${near ? `did you mean "${near}"?` : `want one of ${exportFormats.join(', ')}`}`,
  );
}

function portOffsetOf(text: string): number {
  const offset = parsePort(text);
  if (offset !== undefined) return offset;
  throw new UsageError(`--port-offset: got "${text}", want a whole number, 0 to 65535`);
}

/** Reads `192.0.2.53`, `192.0.2.53:5353`, `2001:db8::53` and `[2001:db8::53]:5353`. */
function nameserverOf(text: string): Endpoint | undefined {
  if (isIP(text) !== 0) return text.includes('%') ? undefined : { address: text, port: 53 };
  const read = parseListen(text);
  return read && read.port > 0 ? { address: read.host, port: read.port } : undefined;
}

function nameserversOf(text: string | undefined): Endpoint[] {
  // An address with a zone (`fe80::1%eth0`) is left out: none of the formats can write it.
  if (text === undefined) return getServers().flatMap((server) => nameserverOf(server) ?? []);
  return text.split(',').map((one) => {
    const read = nameserverOf(one.trim());
    if (read) return read;
    throw new UsageError(`--nameserver: got "${one.trim()}", want an IP address, or one with a port`);
  });
}

/** The forwarding plans of the stored applications, and the ids of the applications that have none. */
function readPlans(config: Config): Promise<{ plans: readonly ForwardingPlan[]; withoutPlan: readonly string[] }> {
  return withDatabase(config, async (database) => {
    const store = await openApplicationStore(database);
    const accounts = proxyAccounts(config.accounts, config.edgeAccounts);
    const plans = await storedPlans({ zones: config.zones, accounts, store, log: silentLog })();
    const planned = new Set(plans.map(({ id }) => id));
    const withoutPlan = (await store.all()).map(({ id }) => id).filter((id) => !planned.has(id));
    return { plans, withoutPlan };
  });
}

function lineOf({ application, name, leftOut, text }: ExportGap): string {
  if (application === undefined) return `note: ${text}\n`;
  const subject = `application ${application}${name === undefined ? '' : ` (${name})`}`;
  return `${subject}: ${leftOut ? 'NOT EXPORTED: ' : ''}${text}\n`;
}

const exportCommand = defineCommand({
  name: 'export',
  summary: 'Write the stored applications as the configuration of another proxy',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details:
    'Reads the applications of the store, which a running server may go on using. An application that the format cannot\n' +
    'carry as Postern does is left out; what is only operated differently is written. Both are told on standard error and\n' +
    'in comments of the output. See docs/proxy-export.md.',
  options: {
    format: { value: 'FORMAT', short: 'f', summary: `${exportFormats.join(', ')} (required)` },
    output: { value: 'FILE', short: 'o', summary: 'write to FILE (default: standard output)' },
    'port-offset': { value: 'N', summary: "added to every edge port (default: the configuration's proxy.portOffset)" },
    nameserver: { value: 'A,B', summary: "for origins that are names (default: the system's)" },
    'ca-file': { value: 'FILE', summary: `authorities for tls: strict, PEM (default: ${defaultCaFile})` },
    strict: { summary: 'write nothing and exit with 1 where an application would be left out' },
    ...configOption,
  },
  examples: [
    'postern proxy export --format haproxy --port-offset 0 --output /etc/haproxy/haproxy.cfg',
    'postern proxy export --format nginx --nameserver 192.0.2.53',
    'postern proxy export --format envoy --strict',
  ],
  exitCodes: {
    1: 'the store or the output failed, or --strict and an application cannot be written',
    ...configExitCode,
  },
  async run({ options }, io) {
    const format = formatOf(options.format);
    const givenOffset = options['port-offset'] === undefined ? undefined : portOffsetOf(options['port-offset']);
    const nameservers = nameserversOf(options.nameserver);
    const config = configFor(io, options.config);
    const { plans, withoutPlan } = await readPlans(config);
    const findCertificate = createCertificateFinder(join(config.certsDir, 'tls'));
    const settings: ExportSettings = {
      portOffset: givenOffset ?? config.proxy.portOffset,
      certsDir: config.certsDir,
      certificateFolder: (name) => findCertificate(name)?.folder,
      caFile: resolve(io.cwd, options['ca-file'] ?? defaultCaFile),
      nameservers,
      zonesWithRecords: config.zones.filter(({ records }) => records).map(({ name }) => name),
      withoutPlan,
      limits: defaultDataPlaneLimits,
      limitsOf: readLimits(config.proxy.limits).limitsOf,
      originDeny: config.proxy.originDeny,
    };
    const { text, gaps } = exportPlans(format, plans, settings);
    for (const gap of gaps) io.stderr.write(lineOf(gap));
    if (options.strict && gaps.some(({ leftOut }) => leftOut)) return 1;
    if (options.output === undefined) io.stdout.write(text);
    else writeOutput(resolve(io.cwd, options.output), text);
    return 0;
  },
});

function writeOutput(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    throw new Error(`Cannot write "${file}": ${errorMessage(cause)}`, { cause });
  }
}

/** The commands about proxy applications. */
export const proxyCommands = defineGroup(
  'proxy',
  { summary: 'List the proxy applications, or take them to another proxy' },
  {
    list: { summary: listCommand.summary, load: () => Promise.resolve(listCommand) },
    export: { summary: exportCommand.summary, load: () => Promise.resolve(exportCommand) },
  },
);

import { getServers } from 'node:dns';
import { isIP } from 'node:net';
import { join, resolve } from 'node:path';
import { parseListen, parsePort } from '../../app/config/addresses.ts';
import type { Config } from '../../app/config/config.ts';
import { UsageError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { createCertificateFinder } from '../../base/net/find-certificate.ts';
import type { StoredApplication } from '../../proxy/application/application.ts';
import { writeListening } from '../../proxy/application/port-ranges.ts';
import { proxyAccounts } from '../../proxy/application/zone.ts';
import { exporters } from '../../proxy/export/export-plans.ts';
import { type ExportGap, type ExportSettings, exportFormats } from '../../proxy/export/exported.ts';
import { readLimits } from '../../proxy/plane/data-plane-parts.ts';
import { storedPlans } from '../../proxy/plane/stored-plans.ts';
import { openApplicationStore } from '../../proxy/store/application-store.ts';
import type { Endpoint } from '../../proxy/traffic/proxy-header.ts';
import { withDatabase } from '../command/choose-account.ts';
import { columns, defineCommand, defineGroup, jsonOption, print, printJson } from '../command/command.ts';
import { parseWord } from '../command/span.ts';
import { defaultCaFile, exportOptions, writeExport } from '../command/write-export.ts';

interface Listed {
  readonly id: string;
  /** Name of its zone, or its id where the zone is not configured. */
  readonly zone: string;
  readonly protocol: string;
  readonly hostname: string;
  /** `127.64.0.1:20022`. Empty where its zone is not configured, or where its ports plus the offset are no valid ports. */
  readonly listening: readonly string[];
}

function byZone(one: Listed, other: Listed): number {
  return one.zone.localeCompare(other.zone, 'en') || one.hostname.localeCompare(other.hostname, 'en');
}

function readStored(config: Config) {
  return withDatabase(config, async (database) => {
    const store = await openApplicationStore(database);
    const accounts = proxyAccounts(config.accounts, config.edgeAccounts);
    const plans = await storedPlans({ zones: config.zones, accounts, store, log: silentLog })();
    return { applications: await store.all(), plans };
  });
}

async function readApplications(config: Config): Promise<readonly Listed[]> {
  const { applications, plans } = await readStored(config);
  const planById = new Map(plans.map((plan) => [plan.id, plan]));
  const nameById = new Map(config.zones.map(({ id, name }) => [id, name]));
  const listed = ({ id, zone, fields }: StoredApplication): Listed => {
    const plan = planById.get(id);
    return {
      id,
      zone: nameById.get(zone) ?? zone,
      protocol: fields.protocol,
      hostname: fields.dns.name,
      listening: plan ? writeListening(plan, config.proxy.portOffset) : [],
    };
  };
  return applications.map(listed).toSorted(byZone);
}

const listCommand = defineCommand({
  summary: 'List the stored applications and the addresses and ports that they listen on',
  details:
    'One line for each: id, zone, protocol, hostname, and addresses with ports, proxy.portOffset added (nowhere:\n' +
    'the zone is not in the configuration, or the ports are over 65535). Whether a port could be bound is known to the\n' +
    'running server alone: it is in the status that the API shows.',
  options: {
    zone: { value: 'NAME', short: 'z', summary: 'only those of this zone, by name or id' },
    ...jsonOption,
  },
  examples: ['postern proxy list', 'postern proxy list --zone example.com --json'],
  async run({ options, readConfig }, io) {
    const config = readConfig();
    const wanted = options.zone?.toLowerCase();
    const zone = config.zones.find(({ id, name }) => id.toLowerCase() === wanted || name === wanted)?.name ?? wanted;
    const applications = (await readApplications(config)).filter((one) => zone === undefined || one.zone === zone);
    if (options.json) return printJson(io, applications);
    if (applications.length === 0) io.stderr.write('No applications.\n');
    const rows = applications.map(({ listening, ...one }) => {
      const places = listening.length > 0 ? listening.join(', ') : 'nowhere';
      return [one.id, one.zone, one.protocol, one.hostname, places];
    });
    return print(io, columns(rows));
  },
});

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

function subjectOf({ application, name }: ExportGap): { readonly subject?: string } {
  if (application === undefined) return {};
  return { subject: `application ${application}${name === undefined ? '' : ` (${name})`}` };
}

const exportCommand = defineCommand({
  summary: 'Write the stored applications as the configuration of another proxy',
  details:
    'Reads the applications of the store, which a running server may go on using. An application that the format cannot\n' +
    'carry as Postern does is left out; what is only operated differently is written. Both are told on standard error and\n' +
    'in comments of the output. See docs/proxy-export.md.',
  options: {
    ...exportOptions(exportFormats),
    'port-offset': { value: 'N', summary: "added to every edge port (default: the configuration's proxy.portOffset)" },
    nameserver: { value: 'A,B', summary: "for origins that are names (default: the system's)" },
    'ca-file': { value: 'FILE', summary: `authorities for tls: strict, PEM (default: ${defaultCaFile})` },
    strict: { summary: 'write nothing and exit with 1 where an application would be left out' },
  },
  examples: [
    'postern proxy export --format haproxy --port-offset 0 --output /etc/haproxy/haproxy.cfg',
    'postern proxy export --format nginx --nameserver 192.0.2.53',
    'postern proxy export --format envoy --strict',
  ],
  exitCodes: {
    1: 'the store or the output failed, or --strict and an application cannot be written',
  },
  async run({ options, readConfig }, io) {
    const format = parseWord(options.format, '--format', exportFormats);
    const givenOffset = options['port-offset'] === undefined ? undefined : portOffsetOf(options['port-offset']);
    const nameservers = nameserversOf(options.nameserver);
    const config = readConfig();
    const { applications, plans } = await readStored(config);
    const planned = new Set(plans.map(({ id }) => id));
    const findCertificate = createCertificateFinder(join(config.certsDir, 'tls'));
    const settings: ExportSettings = {
      portOffset: givenOffset ?? config.proxy.portOffset,
      certsDir: config.certsDir,
      certificateFolder: (name) => findCertificate(name)?.folder,
      caFile: resolve(io.cwd, options['ca-file'] ?? defaultCaFile),
      nameservers,
      zonesWithRecords: config.zones.filter(({ records }) => records).map(({ name }) => name),
      withoutPlan: applications.map(({ id }) => id).filter((id) => !planned.has(id)),
      limitsOf: readLimits(config.proxy.limits).limitsOf,
      originDeny: config.proxy.originDeny,
    };
    const { text, gaps } = exporters[format](plans, settings);
    return writeExport(io, options, { text, gaps: gaps.map((gap) => ({ ...gap, ...subjectOf(gap) })) });
  },
});

/** `postern proxy` lists the stored applications, and exports them for who runs a dedicated proxy (D84, D94). */
export const command = defineGroup({ list: listCommand, export: exportCommand });

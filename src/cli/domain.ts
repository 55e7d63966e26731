// `postern domain` tells what to publish in DNS for sending domains and the platform, and what DNS answers now (D26, D27, D52).

import { readFileSync } from 'node:fs';
import type { DkimKeyName } from '../accounts/account.ts';
import { dkimKeyFile } from '../app/bootstrap/key-paths.ts';
import type { Config } from '../app/config/config.ts';
import { recordFacts } from '../app/wiring/build-parts.ts';
import { closest } from '../base/closest.ts';
import { UsageError } from '../base/errors.ts';
import { parseSigningKey } from '../pipeline/sign/dkim-key.ts';
import type { SigningKey } from '../pipeline/sign/signed.ts';
import { checkRecords, type DnsSettings, systemDns } from '../web/admin/check-records.ts';
import { type DnsRecord, domainRecords, platformRecords } from '../web/admin/domain-records.ts';
import type { RecordCheck } from '../web/admin/judge-record.ts';
import { type CommandIo, defineCommand, defineGroup, serverOption } from './command/command.ts';
import { printable } from './command/printable.ts';
import { domainOf, keyFault } from './keys.ts';

/** The records of a domain, and keys that could not be read. */
export interface Published {
  readonly domain: string;
  readonly records: readonly DnsRecord[];
  readonly problems: readonly string[];
}

/** Reads the keys that exist; for each of the others it gives the command that makes it. */
function keysOf(config: Config, domain: string, names: readonly DkimKeyName[]) {
  const problems: string[] = [];
  const keys = names.flatMap(({ selector, algorithm }): SigningKey[] => {
    const file = dkimKeyFile(config.certsDir, domain, selector);
    try {
      return [parseSigningKey({ domain, selector, algorithm, pem: readFileSync(file, 'utf8') })];
    } catch (error) {
      problems.push(keyFault(file, { domain, selector, algorithm }, error));
      return [];
    }
  });
  return { keys, problems };
}

/** The records that the configuration needs: those of each sending domain, then the platform's. */
export function publishedBy(config: Config, wanted: string | undefined): Published[] {
  const facts = recordFacts(config);
  const { platform } = config;
  const domains = config.accounts.flatMap(({ sendingDomains }) => sendingDomains);
  const names = [...domains.map(({ name }) => name), platform.domain];
  if (wanted !== undefined && !names.includes(wanted)) {
    const near = closest(wanted, names);
    throw new UsageError(
      `${wanted} is no sending domain and not the platform's domain; ${near ? `did you mean "${near}"?` : `there are ${names.join(', ')}`}`,
    );
  }
  const sending = domains.map((domain) => ({
    domain: domain.name,
    make: () => {
      const { keys, problems } = keysOf(config, domain.name, domain.dkim);
      return { domain: domain.name, records: domainRecords(domain, keys, facts), problems };
    },
  }));
  const own = {
    domain: platform.domain,
    make: () => {
      const { keys, problems } = keysOf(config, platform.domain, platform.dkim);
      return { domain: platform.domain, records: platformRecords(keys, facts), problems };
    },
  };
  return [...sending, own].filter(({ domain }) => wanted === undefined || domain === wanted).map(({ make }) => make());
}

const purposes = {
  dkim: 'DKIM key',
  spf: 'SPF of the reverse-path',
  mx: 'MX of the reverse-path: bounces come there',
  dmarc: 'DMARC, a first policy',
} as const satisfies Record<DnsRecord['purpose'], string>;

/** A record as lines of a zone file, with the verdict of the check as a comment. */
function linesOf({ purpose, zone, publishedBy, remark }: DnsRecord, check: RecordCheck | undefined): string {
  const whose = publishedBy === 'platform' ? " (in the platform's zone)" : '';
  const verdict = check ? [check.state.toUpperCase(), ...(check.detail === undefined ? [] : [check.detail])] : [];
  const found = check && check.state !== 'ok' ? check.found.map((value) => `; found: ${printable(value)}`) : [];
  const comment = [`; ${purposes[purpose]}${whose}`, ...verdict].join(': ');
  return `${[comment, ...(remark === undefined ? [] : [`; ${remark}`]), ...found, zone].join('\n')}\n`;
}

function jsonOf({ domain, records }: Published, checks: readonly RecordCheck[] | undefined): string {
  const shown = records.map(({ publishedBy, ...record }, index) => ({
    ...record,
    published_by: publishedBy,
    ...(checks ? { check: checks[index] } : {}),
  }));
  return `${JSON.stringify({ name: domain, records: shown })}\n`;
}

function print(io: CommandIo, one: Published, checks: readonly RecordCheck[] | undefined): void {
  io.stdout.write(`; ${one.domain}\n`);
  for (const [index, record] of one.records.entries()) io.stdout.write(linesOf(record, checks?.[index]));
  io.stdout.write('\n');
}

/** How to ask a name server that was given. @throws UsageError where it is no address */
export function dnsFor(server: string | undefined): DnsSettings {
  if (server === undefined) return systemDns();
  const dns = systemDns([server]);
  try {
    dns.newResolver();
  } catch (cause) {
    throw new UsageError(`--server: got "${server}", want an IP address, with :port if it is not 53`, { cause });
  }
  return dns;
}

const records = defineCommand({
  summary: 'Print what to publish in DNS, as lines of a zone file',
  synopsis: '[DOMAIN]',
  details:
    "DOMAIN is a sending domain or the platform's domain; without it, all. DKIM is read from the keys under certsDir; SPF\n" +
    'names the smarthosts of the routes, and is a suggestion where they send from other addresses; DMARC is the weakest\n' +
    'policy, to begin with. --check asks DNS, which takes up to 8 s a domain: OK, MISSING, DIFFERENT or ERROR.',
  options: {
    check: { summary: 'ask DNS what it answers now' },
    ...serverOption,
    json: { summary: 'one JSON object a domain' },
  },
  examples: [
    'postern domain records',
    'postern domain records example.com --check',
    'postern domain records example.com --check --server 192.0.2.53',
  ],
  exitCodes: { 1: 'a key is missing or wrong, or a record that was checked is not ok' },
  async run({ options, args: [given], readConfig }, io) {
    const wanted = given === undefined ? undefined : domainOf(given);
    const dns = options.check ? dnsFor(options.server) : undefined;
    let exitCode = 0;
    for (const one of publishedBy(readConfig(), wanted)) {
      const checks = dns && (await checkRecords(one.records, dns));
      if (options.json) io.stdout.write(jsonOf(one, checks));
      else print(io, one, checks);
      for (const problem of one.problems) io.stderr.write(`${problem}\n`);
      if (one.problems.length > 0 || checks?.some(({ state }) => state !== 'ok')) exitCode = 1;
    }
    return exitCode;
  },
});

/** The commands about sending domains. */
export const domainCommands = defineGroup('Print the DNS records of sending domains, and check them', { records });

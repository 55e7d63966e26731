import type { DkimKeyName } from '../accounts/account.ts';
import { dkimKeyFiles } from '../app/bootstrap/key-paths.ts';
import { type KeyProblem, loadDkimKey } from '../app/bootstrap/load-keys.ts';
import type { Config } from '../app/config/config.ts';
import { recordFacts } from '../app/wiring/build-parts.ts';
import { UsageError } from '../base/errors.ts';
import type { SigningKey } from '../pipeline/sign/sign.ts';
import { checkRecords, type DnsSettings, systemDns } from '../web/admin/check-records.ts';
import { domainRecords, platformRecords } from '../web/admin/domain-records.ts';
import type { DnsRecord, RecordCheck } from '../web/admin/domain-schemas.ts';
import { type CommandIo, defineCommand, defineGroup, serverOption } from './command/command.ts';
import { printable } from './command/printable.ts';
import { domainNames, domainOf, noSuchDomain } from './keys.ts';

/** The records of a domain, and keys that could not be read. */
export interface Published {
  readonly domain: string;
  readonly records: readonly DnsRecord[];
  readonly problems: readonly string[];
}

/** The records that the configuration needs: those of each sending domain, then the platform's. */
export function publishedBy(config: Config, wanted: string | undefined): Published[] {
  const facts = recordFacts(config);
  const { platform } = config;
  const domains = config.accounts.flatMap(({ sendingDomains }) => sendingDomains);
  if (wanted !== undefined && !domainNames(config).includes(wanted)) throw noSuchDomain(config, wanted);
  const publish = (
    domain: string,
    dkim: readonly DkimKeyName[],
    make: (keys: SigningKey[]) => readonly DnsRecord[],
  ) => {
    if (wanted !== undefined && domain !== wanted) return [];
    const problems: KeyProblem[] = [];
    const keys = dkimKeyFiles(config.certsDir, domain, dkim).flatMap((place) => loadDkimKey(place, problems));
    return [{ domain, records: make(keys), problems: problems.map(({ text }) => text) }];
  };
  return [
    ...domains.flatMap((one) => publish(one.name, one.dkim, (keys) => domainRecords(one, keys, facts))),
    ...publish(platform.domain, platform.dkim, (keys) => platformRecords(keys, facts)),
  ];
}

const purposes = {
  dkim: 'DKIM key',
  spf: 'SPF of the reverse-path',
  mx: 'MX of the reverse-path: bounces come there',
  dmarc: 'DMARC, a first policy',
} as const satisfies Record<DnsRecord['purpose'], string>;

function linesOf({ purpose, zone, published_by: publisher, remark }: DnsRecord, check: RecordCheck | undefined) {
  const whose = publisher === 'platform' ? " (in the platform's zone)" : '';
  const verdict = check ? [check.state.toUpperCase(), ...(check.detail === undefined ? [] : [check.detail])] : [];
  const found = check && check.state !== 'ok' ? check.found.map((value) => `; found: ${printable(value)}`) : [];
  const comment = [`; ${purposes[purpose]}${whose}`, ...verdict].join(': ');
  return `${[comment, ...(remark === undefined ? [] : [`; ${remark}`]), ...found, zone].join('\n')}\n`;
}

function jsonOf({ domain, records }: Published, checks: readonly RecordCheck[] | undefined): string {
  const shown = records.map((record, index) => ({ ...record, check: checks?.[index] }));
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

/** `postern domain` tells what to publish in DNS for sending domains and the platform, and what DNS answers now (D26, D27, D52). */
export const command = defineGroup({ records });

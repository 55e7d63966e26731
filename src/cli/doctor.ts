import { Resolver } from 'node:dns/promises';
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { checkFiles } from '../app/bootstrap/check-files.ts';
import type { Config } from '../app/config/config.ts';
import { errorMessage, UsageError } from '../base/errors.ts';
import { FairSlots } from '../base/fifo.ts';
import { printableJson } from '../pipeline/report/print.ts';
import { shownOctets } from '../spool/inspect/database-report.ts';
import { defaultMinFreeBytes } from '../spool/spool-limits.ts';
import { checkRecords, type DnsSettings } from '../web/admin/check-records.ts';
import { defineCommand, jsonOption, serverOption } from './command/command.ts';
import { printable } from './command/printable.ts';
import { inspect } from './database/db-check.ts';
import {
  lookAtClock,
  lookAtExchangers,
  lookAtName,
  lookAtSmarthosts,
  lookAtSts,
  lookMs,
  type Seen,
  type State,
  seen,
  seenRecord,
  within,
} from './doctor-looks.ts';
import { dnsFor, type Published, publishedBy } from './domain.ts';

const domainsAtOnce = 8;
/** How long all looks at records together may take, in milliseconds; what is left then is told as not looked at. */
const recordsMs = 60_000;
/** How much more than `spool.minFreeBytes` should be free. */
const roomFactor = 4;

/** What is wrong with a domain's keys is told with the other files. */
async function lookAtDomain({ records }: Published, dns: DnsSettings): Promise<readonly Seen[]> {
  const checks = await checkRecords(records, { ...dns, withinMs: lookMs - 500 });
  return records.flatMap((record, at) => {
    const check = checks[at];
    return check ? [seenRecord(record, check)] : [];
  });
}

/** Looks at the records of each domain, some at a time. The resolvers are cancelled when a look is over. */
function lookAtDomains(config: Config, dns: DnsSettings, resolver: Resolver): readonly Promise<readonly Seen[]>[] {
  const slots = new FairSlots(domainsAtOnce, domainsAtOnce);
  const until = performance.now() + recordsMs;
  const lookAt = async (one: Published): Promise<readonly Seen[]> => {
    const { domain } = one;
    const what = `records of ${domain}`;
    if (performance.now() > until)
      return [seen(what, 'warning', 'not looked at in time', `postern domain records ${domain} --check`)];
    const both = await Promise.all([
      within(what, () => lookAtDomain(one, dns)),
      within(`mta-sts _mta-sts.${domain}`, () => lookAtSts(domain, resolver)),
    ]);
    return both.flat();
  };
  return publishedBy(config, undefined).map(async (one) => {
    const leave = await slots.take('');
    return await lookAt(one).finally(leave);
  });
}

function lookAtFiles(config: Config): readonly Seen[] {
  const what = 'keys and certificates';
  const { faults, warnings } = checkFiles(config, Date.now());
  const told = (state: State, text: string): Seen =>
    seen(what, state, text, /make it|chmod/.test(text) ? undefined : 'Renew it, or mend its file');
  if (faults.length + warnings.length === 0)
    return [seen(what, 'ok', 'there, for their names, in time, and readable by their owner alone')];
  return [...faults.map((text) => told('fault', text)), ...warnings.map((text) => told('warning', text))];
}

function lookAtDisk({ dataDir, spool }: Config): readonly Seen[] {
  const what = `room in ${dataDir}`;
  try {
    let folder = dataDir;
    while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
    const { bavail, blocks, bsize, ffree, files } = statfsSync(folder);
    const free = bavail * bsize;
    const least = spool.minFreeBytes ?? defaultMinFreeBytes(blocks * bsize);
    const text = `${shownOctets(free)} free`;
    const cure = `Give it more room: below ${shownOctets(least)} (spool.minFreeBytes) mail is put off`;
    if (free < least) return [seen(what, 'fault', text, cure)];
    if (free < roomFactor * least) return [seen(what, 'warning', text, cure)];
    const moreFiles = 'Remove files, or make a file system with more inodes';
    if (files > 0 && ffree < 10_000) return [seen(what, 'warning', `${ffree} files can be made`, moreFiles)];
    return [seen(what, 'ok', text)];
  } catch (error) {
    return [seen(what, 'fault', errorMessage(error), 'See that dataDir is there')];
  }
}

async function lookAtDatabase(config: Config): Promise<readonly Seen[]> {
  const { database } = config;
  const what = `database ${database.engine}`;
  if (database.engine === 'sqlite' && !existsSync(database.file))
    return [seen(what, 'ok', 'not made yet: the first start makes it')];
  try {
    const { problems } = await inspect(config, false, Math.floor(lookMs / 1000) - 1);
    if (problems.length === 0) return [seen(what, 'ok', 'no problem was found')];
    return problems.map(({ text, cure }) => seen(what, 'warning', text, cure));
  } catch (error) {
    return [seen(what, 'fault', errorMessage(error), 'See that the database runs and lets us in')];
  }
}

/** Reads ADDRESS or ADDRESS:PORT of a time server. @throws UsageError */
function timeServer(text: string): readonly [string, number] {
  const [, host = '', port = '123'] = /^([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (host === '' || Number(port) > 65_535) throw new UsageError(`--ntp: got "${text}", want HOST or HOST:PORT`);
  return [host.replace(/^\[|\]$/g, ''), Number(port)];
}

const exitCodeOf = { ok: 0, warning: 1, fault: 2 } as const satisfies Record<State, number>;
const wordOf = { ok: 'ok     ', warning: 'WARNING', fault: 'FAULT  ' } as const satisfies Record<State, string>;

function lineOf({ what, state, text, cure }: Seen): string {
  return `${wordOf[state]}  ${printable(what)}: ${printable(text)}${cure === undefined ? '' : `. ${printable(cure)}`}\n`;
}

/** postern doctor looks at everything outside the program that mail needs, and says of each what is wrong and what cures it. */
export const command = defineCommand({
  summary: 'Look at DNS, next hops, clock, disk, keys and database, and tell what is wrong',
  details: `A line for each thing that mail needs, with its cure: the records of every sending domain and of the platform (SPF, DKIM against the
key on file, DMARC, MX of bounces, MTA-STS), whether next hops and port 25 can be reached, the reverse name, the clock, room on the disk,
keys and certificates, the database. Nothing is written, and no look takes longer than ${lookMs / 1000} s.`,
  options: {
    ...serverOption,
    ntp: {
      value: 'HOST',
      summary: 'the time server to compare the clock with, with :port if it is not 123 (default: none)',
    },
    ...jsonOption,
  },
  examples: ['postern doctor', 'postern doctor --ntp ntp.example.net', 'postern doctor --json'],
  exitCodes: { 1: 'something deserves a look', 2: 'something is wrong' },
  async run({ options, readConfig }, io) {
    const config = readConfig();
    const dns = dnsFor(options.server);
    const time = options.ntp === undefined ? undefined : timeServer(options.ntp);
    const resolver = new Resolver({ timeout: 2000, tries: 2 });
    if (options.server !== undefined) resolver.setServers([options.server]);
    const { routes } = config.delivery;
    const domains = config.accounts.flatMap(({ sendingDomains }) => sendingDomains.map(({ name }) => name));
    const looks = [
      ...lookAtDomains(config, dns, resolver),
      within('next hops', (signal) => lookAtSmarthosts(routes, signal)),
      // By themselves: where DNS says nothing, the smarthosts are told of all the same.
      ...(routes.some(({ type }) => type === 'mx')
        ? [within('port 25 to the outside', (signal) => lookAtExchangers(domains, { resolver, signal }))]
        : []),
      within(`name ${config.smtp.hostname}`, () => lookAtName(config.smtp.hostname, resolver)),
      ...(time ? [within('clock', (signal) => lookAtClock(...time, signal))] : []),
      within('database', () => lookAtDatabase(config)),
    ];
    const seenThere = await Promise.all(looks);
    resolver.cancel();
    // Several domains share the records of one bounce domain.
    const every = [...seenThere.flat(), ...lookAtDisk(config), ...lookAtFiles(config)];
    const all = [...new Map(every.map((one) => [`${one.what} ${one.text}`, one])).values()];
    for (const one of all) io.stdout.write(options.json ? `${printableJson(one)}\n` : lineOf(one));
    return Math.max(0, ...all.map(({ state }) => exitCodeOf[state]));
  },
});

// `postern proxy list` shows the stored applications, and where a server listens for each (D84, D94).

import { silentLog } from '../../base/log.ts';
import type { Config } from '../../config.ts';
import type { StoredApplication } from '../../proxy/application/application.ts';
import { proxyAccounts } from '../../proxy/application/proxy-accounts.ts';
import { writeListening } from '../../proxy/application/written-ports.ts';
import { storedPlans } from '../../proxy/plane/stored-plans.ts';
import { openApplicationStore } from '../../proxy/store/sqlite-application-store.ts';
import { withDatabase } from '../command/choose-account.ts';
import { columns, configOption, defineCommand } from '../command/command.ts';
import { configExitCode, configFor } from '../command/load-config.ts';

/** One application in the list. */
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

function readApplications(config: Config): Promise<readonly Listed[]> {
  return withDatabase(config, async (database) => {
    const store = await openApplicationStore(database);
    const accounts = proxyAccounts(config.accounts, config.edgeAccounts);
    const plans = await storedPlans({ zones: config.zones, accounts, store, log: silentLog })();
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
    return (await store.all()).map(listed).toSorted(byZone);
  });
}

/** postern proxy list */
export const listCommand = defineCommand({
  name: 'list',
  summary: 'List the stored applications and the addresses and ports that they listen on',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details:
    'One line for each: id, zone, protocol, hostname, and addresses with ports, proxy.portOffset added (nowhere:\n' +
    'the zone is not in the configuration, or the ports are over 65535). Whether a port could be bound is known to the\n' +
    'running server alone: it is in the status that the API shows.',
  options: {
    zone: { value: 'NAME', short: 'z', summary: 'only those of this zone, by name or id' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: ['postern proxy list', 'postern proxy list --zone example.com --json'],
  exitCodes: configExitCode,
  async run({ options }, io) {
    const config = configFor(io, options.config);
    const wanted = options.zone?.toLowerCase();
    const zone = config.zones.find(({ id, name }) => id.toLowerCase() === wanted || name === wanted)?.name ?? wanted;
    const applications = (await readApplications(config)).filter((one) => zone === undefined || one.zone === zone);
    if (options.json) {
      for (const application of applications) io.stdout.write(`${JSON.stringify(application)}\n`);
      return 0;
    }
    if (applications.length === 0) io.stderr.write('No applications.\n');
    const rows = applications.map(({ id, zone: of, protocol, hostname, listening }) => [
      id,
      of,
      protocol,
      hostname,
      listening.length > 0 ? listening.join(', ') : 'nowhere',
    ]);
    for (const line of columns(rows)) io.stdout.write(`${line}\n`);
    return 0;
  },
});

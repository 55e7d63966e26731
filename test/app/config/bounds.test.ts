// Bounds of the lists that are gone through for each message, connection or request (D99): at the bound, and one more.

import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { stripSetNames } from '../../../src/pipeline/policy/strip-sets.ts';
import { toldKinds } from '../../../src/spool/events/mail-event.ts';
import { loadYaml } from '../../support/scratch.ts';

const kinds = toldKinds;
const uuid = '00000000-0000-4000-8000-000000000000';

type Entry = (at: number) => unknown;

const credential = (key: string, entry: Entry) => [`accounts[0].credentials[0].${key}`, entry] as const;
const zone = (key: string, entry: Entry) => [`zones[0].${key}`, entry] as const;

/** The path of a list, what an entry of it is, how many there may be, and what is wanted where that is not said so. */
const lists: readonly (readonly [readonly [string, Entry], number, string?])[] = [
  [credential('strip', (at) => `X-A${at}*`), 500],
  [credential('stripInvalid', (at) => `X-A${at}*`), 500],
  [credential('keepFirst', (at) => `X-A${at}`), 500],
  [credential('stripSets', () => 'cron'), stripSetNames.length],
  [['accounts[0].sendingDomains[0].dkim', (at) => ({ selector: `s${at}` })], 4, 'a list of 1 to 4'],
  [['accounts[0].webhooks[0].kinds', () => 'failed'], kinds.length, `a list of 1 to ${kinds.length}`],
  [['accounts[0].virtualNetworks', () => ({ id: uuid, name: 'n', routes: [] })], 100],
  [['accounts[0].virtualNetworks[0].routes', (at) => `10.${at >> 8}.${at & 255}.0/24`], 500],
  [zone('hostnames', (at) => `h${at}.a.example`), 1000],
  [zone('permittedOriginZones', (at) => `h${at}.b.example`), 1000],
  [zone('protocols.tcp', (at) => at + 1), 100],
  [zone('protocols.udp', (at) => at + 1), 100],
  [zone('protocols.unavailable', (at) => `tcp/${at + 1}`), 100],
  [zone('records.www.A', (at) => `192.0.2.${at & 255}`), 256],
  [zone('records.www.AAAA', (at) => `2001:db8::${at.toString(16)}`), 256],
  [zone('records.www.CNAME', (at) => `h${at}.b.example`), 256],
  [zone('records.www.SRV', (at) => `0 0 ${at + 1} a.example`), 256],
];

/** Puts a value at a path such as `zones[0].records.www.A`. */
function put(into: unknown, path: string, value: unknown): void {
  const steps = path.split(/[.[\]]+/).filter((step) => step !== '');
  const last = steps.pop() ?? '';
  let place: unknown = into;
  for (const [at, step] of steps.entries()) {
    if (typeof place !== 'object' || place === null) throw new Error(`${path} leads nowhere`);
    if (!Object.hasOwn(place, step)) Reflect.set(place, step, /^\d+$/.test(steps[at + 1] ?? '') ? [] : {});
    place = Reflect.get(place, step);
  }
  if (typeof place !== 'object' || place === null) throw new Error(`${path} leads nowhere`);
  Reflect.set(place, last, value);
}

function faultsOf(path: string, entries: readonly unknown[]): string[] {
  const contents = {
    accounts: [
      {
        name: 'dev',
        id: 'a1'.repeat(16),
        credentials: [{ name: 'default' }],
        sendingDomains: [{ name: 'a.example' }],
        webhooks: [{ name: 'w', url: 'https://hooks.example/', secretEnv: 'HOOK' }],
        virtualNetworks: [{ id: uuid, name: 'n', routes: [] }],
      },
    ],
    zones: [{ name: 'a.example', id: '11'.repeat(16), account: 'dev' }],
  };
  put(contents, path, entries);
  try {
    loadYaml(stringify(contents));
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return error.message.split('\n').map((line) => line.replace(/^postern\.yaml:\d+:\d+: /, ''));
  }
}

test.each(lists.map(([[path, entry], most, want]) => ({ path, entry, most, want })))(
  '$path has at most $most',
  ({ path, entry, most, want = `a list of at most ${most}` }) => {
    const entries = Array.from({ length: most + 1 }, (_, at) => entry(at));
    expect(faultsOf(path, entries)).toEqual([`${path}: got a list of ${most + 1}, want ${want}`]);
    expect(faultsOf(path, entries.slice(1))).toEqual([]);
  },
);

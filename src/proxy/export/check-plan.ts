// The checks before a plan is written into another program's configuration: nothing in it can be read as a directive.

import { isIP } from 'node:net';
import { maskUnprintable } from '../../base/escape-text.ts';
import { addressTest } from '../../base/net/address-test.ts';
import type { ForwardingPlan, PortRange } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import type { CheckedPlan, ExportSettings, Rendered } from './exported.ts';

const idForm = /^[0-9a-f]{32}$/;
/** Labels of letters, digits, hyphen and underscore: no blank, quote, brace, semicolon or variable. */
const nameForm = /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*$/;
/** What every format can hold between quotes. nginx would read a `$` as a variable, and has no escape for it. */
const pathForm = /^\/[A-Za-z0-9 _.,:=@%+~/-]{0,512}$/;

/** A text of somebody else, for a comment or a message: printable ASCII, in quotes, of a sane length. */
export function shown(text: string): string {
  return maskUnprintable(JSON.stringify(text.slice(0, 200)));
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

function isRange({ first, last }: PortRange): boolean {
  return isPort(first) && isPort(last) && first <= last;
}

/** An address as a socket takes it: no zone, no leading zeros. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%');
}

function isNetwork(text: string): boolean {
  try {
    addressTest([text]);
    return /^[0-9a-fA-F:./]+$/.test(text);
  } catch {
    return false; // neither an address nor a network
  }
}

/** The first thing in a plan that is not what its place allows. */
function faultOf(plan: ForwardingPlan): string | undefined {
  const { origin, firewall, ports } = plan;
  if (!idForm.test(plan.id)) return `its id is ${shown(plan.id)}`;
  if (!nameForm.test(plan.name)) return `its hostname is ${shown(plan.name)}`;
  if (!isRange(ports)) return 'its ports are no range of ports';
  const addresses = [
    ...plan.addresses,
    ...(plan.sourceAddress === undefined ? [] : [plan.sourceAddress]),
    ...(origin.kind === 'direct' ? origin.origins.map(({ address }) => address) : []),
  ];
  const wrongAddress = addresses.find((address) => !isAddress(address));
  if (wrongAddress !== undefined) return `it has the address ${shown(wrongAddress)}`;
  const wrongNetwork = [...firewall.block, ...firewall.allow].find((network) => !isNetwork(network));
  if (wrongNetwork !== undefined) return `its firewall lists have ${shown(wrongNetwork)}`;
  if (origin.kind === 'dns' && !nameForm.test(origin.name)) return `its origin is named ${shown(origin.name)}`;
  if (origin.kind === 'dns' && !(Number.isInteger(origin.ttlSeconds) && origin.ttlSeconds > 0))
    return 'its ttl is none';
  const length = ports.last - ports.first;
  const ranges =
    origin.kind === 'direct' ? origin.origins.map(({ ports }) => ports) : origin.ports ? [origin.ports] : [];
  const isInStep = ranges.every((range) => isRange(range) && range.last - range.first === length);
  return isInStep ? undefined : 'its origin ports are not in step with its ports';
}

/**
 * Checks a plan and the paths of its certificate.
 * @returns why it cannot be exported, whatever the format
 */
export function checkPlan(plan: ForwardingPlan, settings: ExportSettings): Rendered<CheckedPlan> {
  if (plan.obstacle !== undefined) return { ok: false, why: plan.obstacle };
  const wrongServer = settings.nameservers.find(({ address, port }) => !isAddress(address) || !isPort(port));
  const fault = wrongServer ? `the name server ${shown(wrongServer.address)} is none` : faultOf(plan);
  if (fault !== undefined) return { ok: false, why: `${fault}, which cannot be written safely` };
  const bound = { first: plan.ports.first + settings.portOffset, last: plan.ports.last + settings.portOffset };
  if (bound.last > 65_535)
    return { ok: false, why: `its ports and the offset of ${settings.portOffset} are over 65535` };
  if (plan.addresses.length === 0) return { ok: false, why: 'it has no address to listen on' };
  if (plan.origin.kind === 'direct' && plan.origin.origins.length === 0) return { ok: false, why: 'it has no origin' };
  const title = `${plan.transport}/${formatPorts(plan.ports)} on ${plan.name}`;
  if (plan.tls === 'off' || plan.transport === 'udp') {
    return { ok: true, body: { plan, bound, title }, notes: [] };
  }
  const folder = settings.certificateFolder?.(plan.name) ?? `${settings.certsDir}/tls/${plan.name}`;
  if (!pathForm.test(folder) || !pathForm.test(settings.caFile)) {
    const path = pathForm.test(folder) ? settings.caFile : folder;
    return { ok: false, why: `the path ${shown(path)} has characters that cannot be written safely` };
  }
  const certificate = { folder, chain: `${folder}/fullchain.pem`, key: `${folder}/privkey.pem` };
  return { ok: true, body: { plan, bound, title, certificate }, notes: [] };
}

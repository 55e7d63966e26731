// An export: plans in, the text of another proxy's configuration out, of parts that all formats share, with each gap as a comment.

import { isIP } from 'node:net';
import { maskUnprintable, quotePrintable } from '../../base/escape-text.ts';
import { isWithinDomain } from '../../base/net/domain-labels.ts';
import { addressTest } from '../../base/net/socket-address.ts';
import type { ForwardingPlan, PortRange } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import type { DataPlaneLimits } from '../traffic/listener.ts';
import type { Endpoint } from '../traffic/proxy-header.ts';

/** The proxies that are written for. */
export const exportFormats = ['haproxy', 'nginx', 'envoy'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** What holds for all applications. */
export interface ExportSettings {
  /** Added to every edge port, as the data plane does (`proxy.portOffset`). */
  readonly portOffset: number;
  /** The folder of certificates: `<certsDir>/tls/<name>/fullchain.pem` and `privkey.pem`. Absolute. */
  readonly certsDir: string;
  /** The folder whose certificate holds for a name; absent, or undefined for one that has none: the one of its name. */
  readonly certificateFolder?: (name: string) => string | undefined;
  /** Authorities that `tls: strict` trusts, one PEM file. */
  readonly caFile: string;
  /** For origins found by name. IPv6 without brackets. */
  readonly nameservers: readonly Endpoint[];
  /** Zones whose records the configuration has: their names Postern does not ask DNS for (D99). */
  readonly zonesWithRecords: readonly string[];
  /** Ids of stored applications that have no plan: their zone is not configured, or they cannot be read. */
  readonly withoutPlan: readonly string[];
  /** The limits of an application. */
  readonly limitsOf: (plan: ForwardingPlan) => DataPlaneLimits;
  /** CIDRs that no connection may go to. */
  readonly originDeny: readonly string[];
}

/** Something that the format cannot say. */
export interface ExportGap {
  /** Id of the application; absent for what concerns all. */
  readonly application?: string;
  /** `dns.name` of the application. */
  readonly name?: string;
  /** The application is left out as a whole, since it would not carry the same octets; else it works but for this. */
  readonly leftOut: boolean;
  /** One line of printable ASCII. */
  readonly text: string;
}

/** One application in a format: its lines, or why it has none. */
export type Rendered<T> =
  | { readonly ok: true; readonly body: T; readonly notes: readonly string[] }
  | { readonly ok: false; readonly why: string };

/** A plan after the checks that all formats share: every text in it is what its place allows, and nothing else. */
export interface CheckedPlan {
  readonly plan: ForwardingPlan;
  /** The bound ports: edge ports and the offset. */
  readonly bound: { readonly first: number; readonly last: number };
  /** Certificate and key for clients; absent with `tls: off`, and for UDP. */
  readonly certificate?: { readonly folder: string; readonly chain: string; readonly key: string };
  /** `udp/53 on dns.example.com`. */
  readonly title: string;
}

/** A range of more ports is left out: the file would be larger than anybody reads. */
const mostPorts = 256;

/** The bound ports of a plan and how far each is from the first; undefined where they are too many. */
export function eachPort({
  bound,
}: CheckedPlan): readonly { readonly port: number; readonly step: number }[] | undefined {
  const count = bound.last - bound.first + 1;
  if (count > mostPorts) return undefined;
  return Array.from({ length: count }, (_, step) => ({ port: bound.first + step, step }));
}

/** Why a longer range is left out. */
export const tooManyPorts = `its ports differ from the origin's, and each of them would need a section of its own, of which ${mostPorts} are the most`;

const idForm = /^[0-9a-f]{32}$/;
/** Labels of letters, digits, hyphen and underscore: no blank, quote, brace, semicolon or variable. */
const nameForm = /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*$/;
/** What every format can hold between quotes. nginx would read a `$` as a variable, and has no escape for it. */
const pathForm = /^\/[A-Za-z0-9 _.,:=@%+~/-]{0,512}$/;

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

function isRange({ first, last }: PortRange): boolean {
  return isPort(first) && isPort(last) && first <= last;
}

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
  if (!idForm.test(plan.id)) return `its id is ${quotePrintable(plan.id)}`;
  if (!nameForm.test(plan.name)) return `its hostname is ${quotePrintable(plan.name)}`;
  if (!isRange(ports)) return 'its ports are no range of ports';
  const addresses = [
    ...plan.addresses,
    ...(plan.sourceAddress === undefined ? [] : [plan.sourceAddress]),
    ...(origin.kind === 'direct' ? origin.origins.map(({ address }) => address) : []),
  ];
  const wrongAddress = addresses.find((address) => !isAddress(address));
  if (wrongAddress !== undefined) return `it has the address ${quotePrintable(wrongAddress)}`;
  const wrongNetwork = [...firewall.block, ...firewall.allow].find((network) => !isNetwork(network));
  if (wrongNetwork !== undefined) return `its firewall lists have ${quotePrintable(wrongNetwork)}`;
  if (origin.kind === 'dns' && !nameForm.test(origin.name)) return `its origin is named ${quotePrintable(origin.name)}`;
  if (origin.kind === 'dns' && !(Number.isInteger(origin.ttlSeconds) && origin.ttlSeconds > 0))
    return 'its ttl is none';
  const length = ports.last - ports.first;
  const ranges =
    origin.kind === 'direct' ? origin.origins.map(({ ports }) => ports) : origin.ports ? [origin.ports] : [];
  const isInStep = ranges.every((range) => isRange(range) && range.last - range.first === length);
  return isInStep ? undefined : 'its origin ports are not in step with its ports';
}

/** Checks a plan and the paths of its certificate. @returns why it cannot be exported, whatever the format */
function checkPlan(plan: ForwardingPlan, settings: ExportSettings): Rendered<CheckedPlan> {
  if (plan.obstacle !== undefined) return { ok: false, why: plan.obstacle };
  const wrongServer = settings.nameservers.find(({ address, port }) => !isAddress(address) || !isPort(port));
  const fault = wrongServer ? `the name server ${quotePrintable(wrongServer.address)} is none` : faultOf(plan);
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
    return { ok: false, why: `the path ${quotePrintable(path)} has characters that cannot be written safely` };
  }
  const certificate = { folder, chain: `${folder}/fullchain.pem`, key: `${folder}/privkey.pem` };
  return { ok: true, body: { plan, bound, title, certificate }, notes: [] };
}

/** The lines of one application, or, where the format cannot express it, only the comments about it. */
type Entry<T> = { readonly comments: readonly string[] } & (
  | { readonly body: T; readonly checked: CheckedPlan }
  | { readonly body?: undefined }
);

/** One format. `T` is what stands for an application. */
interface PlanFormat<T> {
  readonly title: string;
  /** What holds for all applications in this format alone. */
  readonly notes: readonly string[];
  readonly render: (checked: CheckedPlan, settings: ExportSettings) => Rendered<T>;
  /** The lines of the file behind the comments at its top. */
  readonly write: (entries: readonly Entry<T>[], settings: ExportSettings) => readonly string[];
}

/** The gaps that every export has; they are told at its top. */
function generalGaps(plans: readonly ForwardingPlan[], settings: ExportSettings): ExportGap[] {
  const texts = [
    'limits of open connections per application and per client, traffic counters and events are not exported',
    'Postern itself must not listen on the same addresses and ports on the same machine',
  ];
  if (settings.originDeny.length > 0 && plans.some(({ origin }) => origin.kind === 'dns')) {
    texts.push(
      'proxy.originDeny was checked when applications were written; names that resolve to such an address later are not refused',
    );
  }
  const unplanned = settings.withoutPlan.map((id): ExportGap => {
    const text = 'its zone is not in the configuration, or its fields cannot be read';
    return { application: quotePrintable(id).slice(1, -1), leftOut: true, text };
  });
  return [...texts.map((text) => ({ leftOut: false, text })), ...unplanned];
}

function sharedNotes(plan: ForwardingPlan, { zonesWithRecords, portOffset }: ExportSettings): string[] {
  const { transport, proxyProtocol, tls, origin } = plan;
  const notes: string[] = [];
  if (transport === 'tcp' && proxyProtocol === 'simple') {
    notes.push('the simple header is for UDP: nothing is sent before TCP');
  }
  if (transport === 'tcp' && (proxyProtocol === 'v1' || proxyProtocol === 'v2') && portOffset > 0) {
    notes.push(`the PROXY header names the port that is bound; Postern names it without the offset of ${portOffset}`);
  }
  if (transport === 'udp' && tls !== 'off') notes.push(`tls: ${tls} has no meaning for UDP`);
  if (origin.kind !== 'dns') return notes;
  const zone = zonesWithRecords.find((name) => isWithinDomain(origin.name, name));
  if (zone !== undefined) {
    notes.push(`Postern answers ${origin.name} from the records of ${zone} in its configuration; here DNS is asked`);
  }
  return notes;
}

/** What a client sees of an origin that breaks off. */
export function cleanEnd(program: string): string {
  return `an origin that breaks off, or ends TLS without close_notify, ends cleanly for the client of ${program}; Postern passes it on as a reset`;
}

/** The comment at the top of a file, without the comment sign. */
function headComments(format: string, gaps: readonly ExportGap[]): string[] {
  const general = gaps.filter(({ name }) => name === undefined);
  return [
    `Proxy applications for ${format}, written by postern proxy export. Changes here are lost with the next export.`,
    ...general.map(({ application, text }) =>
      application === undefined ? `Note: ${text}` : `Application ${application}: NOT EXPORTED: ${text}`,
    ),
  ];
}

/** Lines as comments of HAProxy, nginx and YAML alike. */
export function commented(lines: readonly string[], indent = ''): string[] {
  return lines.map((line) => `${indent}# ${maskUnprintable(line)}`);
}

/** Makes the function that writes plans in a format: the whole file, and what it cannot say, which stands in its comments too. */
export function exporter<T>({ title: format, notes: ofFormat, render, write }: PlanFormat<T>) {
  return (plans: readonly ForwardingPlan[], settings: ExportSettings) => {
    const gaps: ExportGap[] = [...generalGaps(plans, settings), ...ofFormat.map((text) => ({ leftOut: false, text }))];
    const entries = plans.map((plan): Entry<T> => {
      const safe = checkPlan(plan, settings);
      const rendered = safe.ok ? render(safe.body, settings) : safe;
      const named = { application: quotePrintable(plan.id).slice(1, -1), name: quotePrintable(plan.name).slice(1, -1) };
      const title = safe.ok ? `Application ${plan.id}: ${safe.body.title}` : `Application ${quotePrintable(plan.id)}`;
      if (!safe.ok || !rendered.ok) {
        const text = rendered.ok ? '' : rendered.why;
        gaps.push({ ...named, leftOut: true, text });
        return { comments: [title, `NOT EXPORTED: ${text}`] };
      }
      const notes = [...sharedNotes(plan, settings), ...rendered.notes];
      for (const text of notes) gaps.push({ ...named, leftOut: false, text });
      return {
        comments: [title, ...notes.map((text) => `Note: ${text}`)],
        body: rendered.body,
        checked: safe.body,
      };
    });
    const lines = [...commented(headComments(format, gaps)), ...write(entries, settings)];
    return { text: `${lines.join('\n')}\n`, gaps };
  };
}

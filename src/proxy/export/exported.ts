// What an export is made from and what it gives: plans in, the text of another proxy's configuration out.

import type { ForwardingPlan } from '../application/application.ts';
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
  readonly limits: DataPlaneLimits;
  /** Those of one application, over `limits`. */
  readonly limitsOf?: (plan: ForwardingPlan) => Partial<DataPlaneLimits>;
  /** CIDRs that no connection may go to. */
  readonly originDeny: readonly string[];
}

/** The limits of an application. */
export function limitsFor(plan: ForwardingPlan, { limits, limitsOf }: ExportSettings): DataPlaneLimits {
  return { ...limits, ...limitsOf?.(plan) };
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

/** An export. */
export interface Exported {
  readonly text: string;
  readonly gaps: readonly ExportGap[];
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

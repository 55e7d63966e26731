// Writes the zones as the configuration of another proxy that stands before Postern: requests go from it straight to the origins, and
// Postern answers those that fail. Nothing of a zone can be read as a directive: what could is left out, and told.

import { quotePrintable } from '../../base/escape-text.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import { type OriginTarget, originTargets } from '../origin/origin-target.ts';
import type { EdgeSettings, EdgeZone } from '../zone/zone.ts';

/** The proxies that are written for. */
export const edgeFormats = ['nginx', 'haproxy', 'caddy'] as const;
export type EdgeFormatName = (typeof edgeFormats)[number];

/** Where something listens. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** What holds for all zones. */
export interface EdgeExportSettings {
  readonly listen: ListenAddress;
  /** Absent: no HTTPS. */
  readonly tlsListen?: ListenAddress | undefined;
  readonly postern: ListenAddress;
  readonly certificateFolder: (hostname: string) => string | undefined;
  /** Authorities of origins whose certificates are verified; one PEM file. */
  readonly caFile: string;
  readonly edge: Pick<EdgeSettings, 'connectTimeoutSeconds' | 'responseTimeoutSeconds' | 'trustedProxies'>;
}

/** A zone whose every text is what its place allows. */
export interface ExportedZone extends Required<Pick<EdgeZone, 'id' | 'name' | 'hostnames' | 'block' | 'allow'>> {
  /** Absent: Postern answers every request. */
  readonly target?: OriginTarget;
  /** The certificate folders by hostname, where there is HTTPS. */
  readonly certificates: ReadonlyMap<string, string>;
}

/** What the format cannot say. */
export interface EdgeGap {
  /** Absent for what concerns all. */
  readonly zone?: string;
  readonly leftOut: boolean;
  readonly text: string;
}

/** One format. */
export interface EdgeFormatWriter {
  /** What holds for every zone in this format alone. */
  readonly notes: readonly string[];
  /** Why a zone cannot be written; absent: it can. */
  readonly obstacle?: (zone: ExportedZone) => string | undefined;
  /** What the operator has to do for a zone. */
  readonly notesOf?: (zone: ExportedZone) => readonly string[];
  /** The lines of the file, its comments and zones in their places. */
  readonly write: (zones: readonly ExportedZone[], settings: EdgeExportSettings) => readonly string[];
}

const nameForm = /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*$/;
const hostForm = /^[A-Za-z0-9_.:-]{1,253}$/;
const prefixForm = /^[A-Za-z0-9._~%/+,:@=-]*$/;
const networkForm = /^[0-9A-Fa-f.:]{2,45}(?:\/[0-9]{1,3})?$/;
/** What every format can hold between quotes. */
const pathForm = /^\/[A-Za-z0-9_.,=@+~/-]{0,512}$/;

function faultOf(zone: ExportedZone, { caFile }: EdgeExportSettings): string | undefined {
  const { id, name, hostnames, block, allow, target, certificates } = zone;
  if (!/^[0-9a-f]{32}$/i.test(id)) return 'its id';
  if (![name, ...hostnames].every((one) => nameForm.test(one))) return 'one of its hostnames';
  if (![...block, ...allow].every((one) => networkForm.test(one))) return 'its lists of addresses';
  if (target && !hostForm.test(target.host)) return 'the host of its origin';
  if (target && !prefixForm.test(target.prefix)) return 'the path of its origin';
  const paths = [...certificates.values(), ...(target?.secure ? [caFile] : [])];
  return paths.every((path) => pathForm.test(path)) ? undefined : 'the path of a certificate';
}

function exported(zone: EdgeZone, targetOf: ReturnType<typeof originTargets>, settings: EdgeExportSettings) {
  const { id, name, hostnames, block = [], allow = [], origin } = zone;
  const names = settings.tlsListen ? hostnames : [];
  const folders = names.flatMap((hostname) => {
    const folder = settings.certificateFolder(hostname);
    return folder === undefined ? [] : [[hostname, folder] as const];
  });
  return {
    id,
    name,
    hostnames,
    block,
    allow,
    ...(origin === undefined ? {} : { target: targetOf({ ...zone, origin }, name) }),
    certificates: new Map(folders),
  };
}

function generalNotes(zones: readonly EdgeZone[], { edge }: EdgeExportSettings): string[] {
  const notes = [
    'limits of the edge (edge.limits, edge.maxHeaderBytes) hold only for the requests that Postern answers',
    'only the answers of Postern have a Ray-ID; other requests are in the log of this proxy alone',
  ];
  if (edge.trustedProxies.length === 0) {
    notes.push(
      'edge.trustedProxies is empty: list the address of this proxy there, or Postern takes it for the client, believes no failure that it reports, and sends the request to the origin itself',
    );
  }
  if (zones.some(({ rateLimit }) => rateLimit)) {
    notes.push('rateLimit is not exported: Postern counts only the requests that it answers');
  }
  return notes;
}

/** What all formats verify otherwise than Postern. */
const verifiedName =
  "a verified certificate must be valid for the requested hostname; Postern takes one for the host of the origin's URL, too";

/** Writes `host:port`. */
export function addressText({ host, port }: ListenAddress): string {
  return hostPort(host, port);
}

/** Writes the zones. @returns the whole file, and what it cannot say, which stands in its comments too */
export function exportEdge(
  { notes, obstacle, notesOf, write }: EdgeFormatWriter,
  zones: readonly EdgeZone[],
  settings: EdgeExportSettings,
): { readonly text: string; readonly gaps: readonly EdgeGap[] } {
  const general = [...generalNotes(zones, settings), ...notes, verifiedName];
  const gaps: EdgeGap[] = general.map((text) => ({ leftOut: false, text }));
  const targetOf = originTargets();
  const written: ExportedZone[] = [];
  for (const given of zones) {
    const zone = exported(given, targetOf, settings);
    const fault = faultOf(zone, settings);
    const why = fault === undefined ? obstacle?.(zone) : `${fault} cannot be written safely`;
    const named = quotePrintable(given.name).slice(1, -1);
    if (why !== undefined) {
      gaps.push({ zone: named, leftOut: true, text: why });
      continue;
    }
    written.push(zone);
    for (const text of notesOf?.(zone) ?? []) gaps.push({ zone: named, leftOut: false, text });
    const bare = zone.hostnames.filter((name) => settings.tlsListen && !zone.certificates.has(name));
    if (bare.length > 0) {
      gaps.push({ zone: named, leftOut: false, text: `no certificate, so no HTTPS, for ${bare.join(', ')}` });
    }
  }
  const comments = gaps.map(({ zone, leftOut, text }) =>
    zone === undefined ? `Note: ${text}` : `Zone ${zone}: ${leftOut ? 'NOT EXPORTED: ' : ''}${text}`,
  );
  const head = ['Written by postern edge export. Changes here are lost with the next export.', ...comments];
  return { text: `${[...head.map((line) => `# ${line}`), ...write(written, settings)].join('\n')}\n`, gaps };
}

// Composes an export: the parts that all formats share, with each gap as a comment at its place.

import { maskUnprintable } from '../../base/escape-text.ts';
import { isWithinDomain } from '../../base/net/domain-labels.ts';
import type { ForwardingPlan } from '../application/application.ts';
import { checkPlan, shown } from './check-plan.ts';
import type { CheckedPlan, Exported, ExportGap, ExportSettings, Rendered } from './exported.ts';

/** The lines of one application, or, where the format cannot express it, only the comments about it. */
export type Entry<T> = { readonly comments: readonly string[] } & (
  | { readonly body: T; readonly checked: CheckedPlan }
  | { readonly body?: undefined }
);

/** The applications in their order, and all gaps. */
export interface Collected<T> {
  readonly entries: readonly Entry<T>[];
  readonly gaps: readonly ExportGap[];
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
    return { application: shown(id).slice(1, -1), leftOut: true, text };
  });
  return [...texts.map((text) => ({ leftOut: false, text })), ...unplanned];
}

/** Notes that hold for a plan in every format. */
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

/** Renders every plan, or says why not. @param general notes about all of them that only this format has */
export function collect<T>(
  plans: readonly ForwardingPlan[],
  settings: ExportSettings,
  render: (checked: CheckedPlan) => Rendered<T>,
  general: readonly string[] = [],
): Collected<T> {
  const gaps = [...generalGaps(plans, settings), ...general.map((text) => ({ leftOut: false, text }))];
  const entries = plans.map((plan): Entry<T> => {
    const safe = checkPlan(plan, settings);
    const rendered = safe.ok ? render(safe.body) : safe;
    const named = { application: shown(plan.id).slice(1, -1), name: shown(plan.name).slice(1, -1) };
    const title = safe.ok ? `Application ${plan.id}: ${safe.body.title}` : `Application ${shown(plan.id)}`;
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
  return { entries, gaps };
}

/** The comment at the top of a file, without the comment sign. */
export function headComments(format: string, gaps: readonly ExportGap[]): string[] {
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

/** The file: lines joined, with a line end. */
export function finish(lines: readonly string[], gaps: readonly ExportGap[]): Exported {
  return { text: `${lines.join('\n')}\n`, gaps };
}

// Joins the edge's parts (D60-D68): custom errors and their endpoints, the reverse proxy, and the answers for hosts.

import { followChanges } from '../base/database/follow-changes.ts';
import type { HttpFront } from '../web/http/front.ts';
import type { V4Plugin } from '../web/http/v4-app.ts';
import { type CustomErrorsParts, openCustomErrors } from './custom/custom-errors.ts';
import { createEdge, type EdgeParts } from './edge.ts';
import { OriginProxy } from './origin/origin-proxy.ts';
import type { EdgeAccountSlice, EdgeSettings } from './zone/zone.ts';

/** What the edge is made from. */
export interface OpenEdgeParts
  extends Pick<EdgeParts, 'apiHosts' | 'docsBaseUrl' | 'onRequest' | 'requests' | 'rateLimitOf'>,
    CustomErrorsParts {
  readonly settings: EdgeSettings;
}

/** The edge with all its parts. */
export interface OpenEdge {
  readonly front: HttpFront;
  plugins(): Promise<readonly V4Plugin[]>;
  /** Requests and upgraded connections that origins have open now. */
  open(): number;
  /** Requests to the edge that are open now, upgraded connections among them. */
  requests(): number;
  /** Stops following changes and closes connections to origins: idle ones at once, the others after so many milliseconds. */
  close(withinMs: number): Promise<void>;
}

/** The accounts with what custom errors read of them: their plan decides whether they have rules (D65). */
export function edgeAccounts(
  accounts: readonly Pick<EdgeAccountSlice, 'id' | 'plan'>[],
  settings: readonly Pick<EdgeAccountSlice, 'id' | 'customErrors'>[],
): EdgeAccountSlice[] {
  const byId = new Map(settings.map(({ id, customErrors }) => [id, customErrors]));
  return accounts.map(({ id, plan }) => {
    const customErrors = byId.get(id);
    return { id, plan, ...(customErrors ? { customErrors } : {}) };
  });
}

/** Opens the edge; it binds nothing. @throws ConfigurationError where the file of an Error Page cannot be used */
export async function openEdge(parts: OpenEdgeParts): Promise<OpenEdge> {
  const { database, settings, clock, log } = parts;
  const customErrors = await openCustomErrors(parts);
  const origins = new OriginProxy({ settings, log, clock });
  const front = createEdge({
    ...parts,
    customAnswer: (zone, occurrence, request) => customErrors.choose(zone, occurrence, request),
    origins,
  });
  const stopFollowing = followChanges(database.changes, 'edge_custom_errors', () => customErrors.refresh());
  return {
    front,
    async plugins() {
      const { customErrorEndpoints } = await import('./custom/custom-error-endpoints.ts');
      return [customErrorEndpoints({ customErrors, clock, log })];
    },
    open: () => origins.open(),
    requests: () => front.open(),
    async close(withinMs) {
      await Promise.all([stopFollowing(), origins.close(withinMs)]);
    },
  };
}

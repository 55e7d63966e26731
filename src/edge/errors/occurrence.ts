// What every renderer says alike of an occurrence, so that no two formats of one error can differ (RFC 9457, D60, D62).

import { escapeHtml } from '../../web/http/page/html-page.ts';
import { categories } from './categories.ts';
import type { EdgeError, EdgeOccurrence } from './edge-error.ts';

/** `footer`: who made the response. */
export const attribution = 'Postern generated this response at the edge; it does not come from the origin server.';

/** `title`. */
export function titleOf(error: EdgeError): string {
  return `Error ${error.code}: ${error.shortName}`;
}

/** The URL of the page about an error (D62); undefined where no address is known by which clients reach it. */
export function referenceUrlOf({ error, docsBaseUrl }: EdgeOccurrence): string | undefined {
  return docsBaseUrl === undefined ? undefined : `${docsBaseUrl}/errors/${error.code}`;
}

/** Seconds to wait, for `retry_after` and Retry-After alike; undefined where the catalogue has none: not retryable. */
export function retrySecondsOf(occurrence: EdgeOccurrence): number | undefined {
  const usual = occurrence.error.retryAfterSeconds;
  return usual === undefined ? undefined : (occurrence.retryAfterSeconds ?? usual);
}

/** `timestamp`: ISO 8601, UTC, milliseconds. */
export function timestampOf(occurrence: EdgeOccurrence): string {
  return new Date(occurrence.at).toISOString();
}

/** The first-level heading of an error: its number above its name, read as one title. */
export function errorHeading({ code, shortName }: EdgeError): string {
  return `<h1><span>Error ${code}<i>: </i></span>${escapeHtml(shortName)}</h1>`;
}

/** What the error is laid to: that of its category, but for an error of category config which the client causes (1038). */
export function responsiblePartyOf({ category, ownerAction }: EdgeError): string {
  if (category === 'config' && !ownerAction) return categories.unsupported.responsible;
  return categories[category].responsible;
}

/** Who has to act (D64). */
export function whoActs({ category, ownerAction }: EdgeError): string {
  if (ownerAction) return 'The operator of the site';
  return category === 'platform' ? 'The operators of the platform' : 'The client (browser or program)';
}

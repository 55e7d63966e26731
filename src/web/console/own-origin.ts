// Tells requests of the console's own pages from those that another site made a browser send. A cookie goes along with both, and
// SameSite takes hosts of one domain, and ports of one host, for the same site; so what the browser says of the page is judged.

import type { FastifyRequest } from 'fastify';
import { refusal } from '../http/envelope.ts';

/** The header field that the pages send with every change. Other sites cannot send it without being asked first (CORS). */
const consoleHeader = 'x-postern-console';

const reading: ReadonlySet<string> = new Set(['GET', 'HEAD']);

type Request = Pick<FastifyRequest, 'headers' | 'protocol' | 'host' | 'method'>;

/** Judges where a request comes from. @returns why it is refused */
function originFault({ headers, protocol, host }: Request, publicUrl: string | undefined): string | undefined {
  const { origin } = headers;
  if (origin === undefined) {
    return headers['sec-fetch-site'] === 'same-origin'
      ? undefined
      : 'A change needs an Origin, which this request lacks';
  }
  if (origin === publicUrl || origin === `${protocol}://${host}`) return undefined;
  const told = JSON.stringify(origin.slice(0, 200));
  return `Origin ${told} is not the console's own; set console.publicUrl if people reach it there`;
}

/**
 * Judges a request that shows a session, or asks for one.
 * @param publicUrl the origin that the configuration names
 * @throws Refusal 403 where it may come from another site than the console's own pages
 */
export function refuseForeign(request: Request, publicUrl: string | undefined): void {
  const { headers, method } = request;
  const site = headers['sec-fetch-site'];
  // `none` is a person who typed an address; a browser sends it only where no page was involved.
  if (site !== undefined && site !== 'same-origin' && !(site === 'none' && reading.has(method))) {
    throw refusal('E_FORBIDDEN', 'A page of another origin sent this request');
  }
  if (reading.has(method)) return;
  if (headers[consoleHeader] !== '1')
    throw refusal('E_FORBIDDEN', 'A change by a session needs the header X-Postern-Console: 1');
  const fault = originFault(request, publicUrl);
  if (fault !== undefined) throw refusal('E_FORBIDDEN', fault);
}

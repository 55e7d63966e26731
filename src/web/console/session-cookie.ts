// The cookie of a session (RFC 6265; draft-ietf-httpbis-rfc6265bis for SameSite and the prefix). No script can read it, no other
// site can have it sent, and over HTTPS no other host of the same domain can set one in its place.

import type { FastifyRequest } from 'fastify';

/** Over plain HTTP. */
const plainName = 'postern_session';
/** Over HTTPS: a browser takes a cookie of this name only from this very host, over HTTPS (the prefix `__Host-`). */
const secureName = '__Host-postern_session';

const secretForm = /^[\w-]{43}$/;

/** The values of a cookie in the header field, which may hold several of the same name. */
function valuesOf(header: string, name: string): string[] {
  return header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
}

/**
 * The secret of the session that a request shows.
 * @returns undefined where it shows none; '' where what it shows can be no session, or where it shows several of one name, as
 *   then somebody else may have set one of them
 */
export function shownSecret({ headers, protocol }: Pick<FastifyRequest, 'headers' | 'protocol'>): string | undefined {
  const { cookie } = headers;
  if (cookie === undefined) return undefined;
  const secure = valuesOf(cookie, secureName);
  // Over HTTPS the plain name is not read: any host of the same domain could have set it.
  const found = secure.length > 0 || protocol === 'https' ? secure : valuesOf(cookie, plainName);
  const [secret] = found;
  if (secret === undefined) return undefined;
  return found.length === 1 && secretForm.test(secret) ? secret : '';
}

/** Writes the cookie of a new session. @param maxAgeSeconds after how long the browser forgets it */
export function sessionCookie(secret: string, isSecure: boolean, maxAgeSeconds: number): string {
  const traits = `Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
  return isSecure ? `${secureName}=${secret}; ${traits}; Secure` : `${plainName}=${secret}; ${traits}`;
}

/** Writes the cookies that make the browser forget a session. */
export function forgottenCookies(): string[] {
  return [sessionCookie('', false, 0), sessionCookie('', true, 0)];
}

import { errorCode, errorMessage } from '../errors.ts';

const nothingThere: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA']);

const details: Readonly<Record<string, string>> = {
  ETIMEOUT: 'the name server did not answer in time',
  ECANCELLED: 'the name server did not answer in time',
  ESERVFAIL: 'the name server answered SERVFAIL',
  EREFUSED: 'the name server refused the query',
  ECONNREFUSED: 'no name server is reachable',
};

/** Tells why a look-up of node:dns failed, in a clause for people; undefined where it is an answer (RFC 8020, RFC 2308). */
export function dnsFailure(error: unknown): string | undefined {
  const code = errorCode(error) ?? '';
  return nothingThere.has(code) ? undefined : (details[code] ?? errorMessage(error));
}

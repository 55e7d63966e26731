// Hands a report over by HTTPS (RFC 8460 §5.4): to an address that is judged before, within bounds of time and octets, no
// redirect followed. The certificate is not verified, which RFC 8460 §3 allows: a report of failing certificates has to
// arrive where certificates fail, and it holds counts alone.

import { request } from 'node:https';
import { isIP, isIPv6 } from 'node:net';
import type { DnsLookup } from '../base/dns/dns-lookup.ts';
import { errorMessage } from '../base/errors.ts';
import type { AddressJudge } from '../deliver/mx/address-judge.ts';

/** What handing over needs. */
export interface PostParts {
  readonly lookup: DnsLookup;
  readonly judge: AddressJudge;
  readonly signal: AbortSignal;
  /** For one request until its answer, in milliseconds. */
  readonly withinMs: number;
}

/** Addresses of a host that are tried. */
const mostAddresses = 2;

function portOf({ port }: URL): number {
  return port === '' ? 443 : Number(port);
}

async function addressesOf(url: URL, { lookup, judge }: PostParts): Promise<readonly string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const found =
    isIP(host) === 0
      ? (await Promise.all([lookup.find(host, 'A'), lookup.find(host, 'AAAA')])).flatMap((one) =>
          one.kind === 'found' ? one.records : [],
        )
      : [host];
  return found.filter((address) => judge(address, portOf(url)) === undefined).slice(0, mostAddresses);
}

function post(url: URL, address: string, body: Buffer, { signal, withinMs }: PostParts): Promise<string | undefined> {
  return new Promise((resolve) => {
    const asking = request({
      host: address,
      family: isIPv6(address) ? 6 : 4,
      port: portOf(url),
      ...(isIP(url.hostname.replace(/^\[|\]$/g, '')) === 0 ? { servername: url.hostname } : {}),
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      headers: { Host: url.host, 'Content-Type': 'application/tlsrpt+gzip', 'Content-Length': body.length },
      rejectUnauthorized: false,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(withinMs)]),
    });
    asking.on('error', (error) => {
      resolve(error.name === 'AbortError' || error.name === 'TimeoutError' ? 'no answer in time' : errorMessage(error));
    });
    // Nobody asked for another protocol; without a listener Node would close the connection and tell nobody.
    asking.on('upgrade', ({ statusCode = 101 }, socket) => {
      socket.destroy();
      resolve(`the answer was ${statusCode}`);
    });
    // Whatever has ended the connection: a report that is waited for without end would keep back all others.
    asking.on('close', () => resolve('the connection was closed'));
    asking.on('response', ({ statusCode = 0 }) => {
      resolve(statusCode >= 200 && statusCode < 300 ? undefined : `the answer was ${statusCode}`);
      // Nothing else of the answer matters.
      asking.destroy();
    });
    asking.end(body);
  });
}

/** Hands a report over. @returns undefined where it was taken, else why not. Never rejects */
export async function postReport(url: URL, body: Buffer, parts: PostParts): Promise<string | undefined> {
  let why: string | undefined = 'the host has no address that may be asked';
  for (const address of await addressesOf(url, parts)) {
    why = await post(url, address, body, parts);
    if (why === undefined) return undefined;
  }
  return why;
}

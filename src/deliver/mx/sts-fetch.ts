// Fetches the policy file of a domain by HTTPS (RFC 8461 §3.3): from an address that mail may go to, within bounds of time
// and size, no redirect followed, the certificate verified for the policy host.

import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { isIPv6 } from 'node:net';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { AddressJudge } from './address-judge.ts';
import { readStsPolicy, type StsPolicy } from './sts-policy.ts';
import type { StsFault } from './tls-result.ts';

/** What fetching needs. */
export interface StsFetchParts {
  readonly lookup: DnsLookup;
  readonly judge: AddressJudge;
  /** Certificates to trust instead of the system's: path of a PEM file, read at each fetch. */
  readonly caFile?: string | undefined;
  /** The port of policy hosts; RFC 8461 knows 443 alone. */
  readonly port: number;
  /** For one fetch, in milliseconds, however slowly its octets come. */
  readonly withinMs: number;
}

/** RFC 8461 §3.3: 64 KiB are enough for any policy. */
const mostOctets = 65_536;
/** The codes of Node and OpenSSL for certificates that cannot be verified. */
const certificateErrors = /CERT|ISSUER|SIGNATURE/;
/** Addresses of the policy host that are tried. */
const mostAddresses = 2;

async function addressesOf(host: string, { lookup, judge, port }: StsFetchParts): Promise<readonly string[]> {
  const found = await Promise.all([lookup.find(host, 'A'), lookup.find(host, 'AAAA')]);
  const all = found.flatMap((one) => (one.kind === 'found' ? one.records : []));
  // A policy host may be a zone of this gateway; it may not be in a private network.
  return all.filter((address) => judge(address, port) !== 'private').slice(0, mostAddresses);
}

/** Why an answer is no policy file; undefined where it is one. */
function headFault({ statusCode, headers }: IncomingMessage): string | undefined {
  if (statusCode !== 200) return `the policy host answered ${statusCode}`;
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase();
  return type === 'text/plain'
    ? undefined
    : `the policy is no text/plain but ${(type ?? '').slice(0, 100) || 'nothing'}`;
}

function get(host: string, address: string, parts: StsFetchParts): Promise<string> {
  return new Promise((resolve, reject) => {
    const { port, withinMs, caFile } = parts;
    const asking = request({
      host: address,
      family: isIPv6(address) ? 6 : 4,
      port,
      servername: host,
      path: '/.well-known/mta-sts.txt',
      headers: { Host: host, Accept: 'text/plain' },
      agent: false,
      ...(caFile === undefined ? {} : { ca: readFileSync(caFile) }),
    });
    const fail = (why: string): void => {
      reject(new Error(why));
      asking.destroy();
    };
    const timer = setTimeout(() => fail('the policy host did not answer in time'), withinMs);
    asking.on('close', () => {
      clearTimeout(timer);
      // Whatever has ended the connection: nobody waits for it any longer.
      reject(new Error('the policy host closed the connection'));
    });
    asking.on('error', reject);
    // Nobody asked for another protocol; without a listener Node would close the connection and tell nobody.
    asking.on('upgrade', ({ statusCode = 101 }, socket) => {
      socket.destroy();
      fail(`the policy host answered ${statusCode}`);
    });
    asking.on('response', (answer) => {
      const fault = headFault(answer);
      const pieces: Buffer[] = [];
      let size = 0;
      answer.on('error', reject);
      answer.on('data', (piece: Buffer) => {
        size += piece.length;
        pieces.push(piece);
        if (size > mostOctets) fail(`the policy is larger than ${mostOctets} octets`);
      });
      answer.on('end', () => resolve(Buffer.concat(pieces).toString('utf8')));
      answer.on('close', () => reject(new Error('the policy host closed the connection')));
      if (fault !== undefined) fail(fault);
    });
    asking.end();
  });
}

/**
 * Fetches a policy.
 * @param id from the TXT record
 * @returns the policy, or why there is none. Never rejects
 */
export async function fetchStsPolicy(domain: string, id: string, parts: StsFetchParts): Promise<StsPolicy | StsFault> {
  const host = `mta-sts.${domain}`;
  let fault: StsFault = {
    failure: 'sts-policy-fetch-error',
    why: 'the policy host has no address that may be asked',
  };
  for (const address of await addressesOf(host, parts)) {
    try {
      const policy = readStsPolicy(await get(host, address, parts), id);
      return typeof policy === 'string' ? { failure: 'sts-policy-invalid', why: policy } : policy;
    } catch (error) {
      const isOfCertificate = certificateErrors.test(errorCode(error) ?? '');
      const failure = isOfCertificate ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
      fault = { failure, why: errorMessage(error) };
    }
  }
  return fault;
}

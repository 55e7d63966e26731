// Where keys and certificates are in the certs folder (D27, D84, D92), and which of them a configuration uses.

import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { DkimKeyName } from '../../accounts/account.ts';
import { createCertificateFinder } from '../../base/net/find-certificate.ts';
import type { Config } from '../config/config.ts';

/** A DKIM key that a configuration names. */
export interface DkimKeyFile extends DkimKeyName {
  /** The d= of its signatures. */
  readonly domain: string;
  readonly file: string;
}

/** Whether any account has a sending domain. Where none has, nothing is signed, and no bounce comes back. */
export function sendsMail({ accounts }: Pick<Config, 'accounts'>): boolean {
  return accounts.some(({ sendingDomains }) => sendingDomains.length > 0);
}

/** certs/dkim/<domain>/<selector>.pem */
export function dkimKeyFile(certsDir: string, domain: string, selector: string): string {
  return join(certsDir, 'dkim', domain, `${selector}.pem`);
}

/** Where the keys of a domain are. */
export function dkimKeyFiles(certsDir: string, domain: string, keys: readonly DkimKeyName[]): DkimKeyFile[] {
  return keys.map((key) => ({ ...key, domain, file: dkimKeyFile(certsDir, domain, key.selector) }));
}

/** The keys of all sending domains. */
export function signingKeyFiles(config: Config): DkimKeyFile[] {
  return config.accounts.flatMap((account) =>
    account.sendingDomains.flatMap(({ name, dkim }) => dkimKeyFiles(config.certsDir, name, dkim)),
  );
}

/** The platform's own keys; none where no route sends the platform's signature (D27), or nobody sends mail. */
export function platformKeyFiles(config: Config): DkimKeyFile[] {
  const { certsDir, platform, delivery } = config;
  const isUsed = sendsMail(config) && delivery.routes.some((route) => route.platformSignature);
  return isUsed ? dkimKeyFiles(certsDir, platform.domain, platform.dkim) : [];
}

/** A host's certificate and key. */
export interface TlsFiles {
  readonly host: string;
  readonly folder: string;
  readonly certificateFile: string;
  readonly privateKeyFile: string;
}

function placeIn(folder: string, host: string): TlsFiles {
  return { host, folder, certificateFile: join(folder, 'fullchain.pem'), privateKeyFile: join(folder, 'privkey.pem') };
}

/** The files of a host's own certificate: certs/tls/<host>/{fullchain,privkey}.pem. */
export function ownTlsFiles(certsDir: string, host: string): TlsFiles {
  return placeIn(join(certsDir, 'tls', host), host);
}

/** Finds certificates of hosts: in the folder of the name, or in another that is valid for it (D84); else the place for a new one. */
export function tlsFilesFor(certsDir: string, hosts: Iterable<string>): TlsFiles[] {
  const find = createCertificateFinder(join(certsDir, 'tls'));
  return [...hosts].map((host) => {
    const own = ownTlsFiles(certsDir, host);
    // A certificate without its key, or a key without its certificate, is a fault to report: no other folder replaces it.
    if (existsSync(own.certificateFile) || existsSync(own.privateKeyFile)) return own;
    // Every self-signed certificate names `localhost`: a search would pick any one of them.
    const found = host.includes('.') ? find(host) : undefined;
    return found ? placeIn(found.folder, host) : own;
  });
}

/** Where the certificate of a host is now: in the host's own folder, or in that of another certificate valid for its name. */
export function tlsFilesOf(certsDir: string, host: string): TlsFiles {
  return tlsFilesFor(certsDir, [host])[0] ?? ownTlsFiles(certsDir, host);
}

/** The host whose certificate HTTPS shows to a client that asks for no name, or for one without a certificate (D68). */
export function defaultTlsHost({ smtp, zones }: Pick<Config, 'smtp' | 'zones'>): string {
  return zones[0]?.hostnames[0] ?? smtp.hostname;
}

/** The certificates that listeners need: that of `smtp.hostname` for STARTTLS and SMTPS, one for each zone hostname for HTTPS. */
export function allTlsFiles(config: Config): TlsFiles[] {
  const { certsDir, smtp, http, zones } = config;
  const hosts = new Set<string>();
  if (smtp.listeners.some(({ tls }) => tls !== 'none')) hosts.add(smtp.hostname);
  if (http.tlsListen) {
    hosts.add(defaultTlsHost(config));
    for (const { hostnames } of zones) for (const hostname of hostnames) hosts.add(hostname);
  }
  return tlsFilesFor(certsDir, hosts);
}

/** Certificates that HTTPS shows if they exist: those of the API's own host names. */
export function optionalTlsFiles({ certsDir, http }: Config): TlsFiles[] {
  const names = http.tlsListen ? http.apiHosts.filter((host) => isIP(host) === 0) : [];
  return tlsFilesFor(certsDir, names).filter(({ folder }) => existsSync(folder));
}

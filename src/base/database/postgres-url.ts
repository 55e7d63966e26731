// URLs of PostgreSQL, as the configuration names them: `postgres://user:password@host:port/name?sslmode=verify-full`. There may be
// several hosts with commas between them; it may be missing where `host` in the query names the folder of a socket.

import { serverHosts } from '../postgres/server-hosts.ts';

/** The parts of a URL that the configuration looks at. */
export interface PostgresUrl {
  /** Host, port and name, for people; without user and password. */
  readonly shown: string;
  /** The hosts; '' where a socket is meant. */
  readonly hosts: readonly string[];
  readonly hasUser: boolean;
  readonly hasPassword: boolean;
  /** `sslmode` of the query. */
  readonly sslmode: string | undefined;
}

const form =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^:@/?#]*)(?::(?<password>[^@/?#]*))?@)?(?<server>[^/?#@]*)\/(?<name>[^/?#]+)(?:\?(?<query>[^#]*))?$/;

/** Reads a URL; undefined where it is none of PostgreSQL with the name of a database. */
export function parsePostgresUrl(url: string): PostgresUrl | undefined {
  const { user, password, server = '', name = '', query } = form.exec(url)?.groups ?? {};
  if (name === '') return undefined;
  const asked = new URLSearchParams(query);
  const socket = asked.get('host');
  return {
    shown: `${server === '' ? (socket ?? '') : server}/${name}`,
    hosts: serverHosts(url).hosts.map(({ host = '' }) => (host.startsWith('/') ? '' : host)),
    hasUser: user !== undefined && user !== '',
    hasPassword: password !== undefined && password !== '',
    sslmode: asked.get('sslmode') ?? undefined,
  };
}

/** The URL with a password. @param url has a user and no password */
export function withPassword(url: string, password: string): string {
  const at = url.indexOf('@');
  const user = url.slice(0, at).replace(/:$/, '');
  return `${user}:${encodeURIComponent(password)}${url.slice(at)}`;
}

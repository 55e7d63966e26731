// A URL of PostgreSQL may name several servers, of which one at a time takes changes, as libpq reads it
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-MULTIPLE-HOSTS). The driver knows URLs of one server.

/** Where a server is. */
export interface ServerHost {
  /** A name, an address, or the folder of a socket; absent: as the driver finds it. */
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}

const form =
  /^(?<begin>postgres(?:ql)?:\/\/(?:(?<user>[^:@/?#]*)(?::(?<password>[^@/?#]*))?@)?)(?<server>[^/?#@]*)(?<path>\/[^?#]*)(?:\?(?<query>[^#]*))?$/;

function hostOf(text: string): ServerHost {
  const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  const bare = host.replace(/^\[|\]$/g, '');
  return {
    host: bare === '' ? undefined : decodeURIComponent(bare),
    port: port === undefined ? undefined : Number(port),
  };
}

/** A URL, or what gives the one of now: each connection gets the password of its time. All else of the URL holds as it was first. */
export type ServerUrl = string | (() => string);

/** The URL of now. */
export function currentUrl(url: ServerUrl): string {
  return typeof url === 'string' ? url : url();
}

/** The password in a URL; undefined where it has none. */
export function passwordIn(url: string): string | undefined {
  const password = form.exec(url)?.groups?.['password'];
  return password === undefined ? undefined : decodeURIComponent(password);
}

/** Finds the servers of a URL, also in its query. @returns the URL with the first one alone, and all in their order */
export function serverHosts(url: string): { readonly url: string; readonly hosts: readonly ServerHost[] } {
  const { begin, server = '', path = '', query = '' } = form.exec(url)?.groups ?? {};
  if (begin === undefined) return { url, hosts: [{}] };
  const asked = new URLSearchParams(query);
  // The driver takes the first server alone, and looks for the one that takes changes by itself (primary-client.ts).
  asked.delete('target_session_attrs');
  const [folders, ports] = [asked.get('host'), asked.get('port')].map((list) => list?.split(',') ?? []);
  let hosts = server.split(',').map(hostOf);
  if (server === '' && folders && folders.length > 0) {
    hosts = folders.map((host, index) => ({ host, port: Number(ports?.[index] ?? ports?.[0]) || undefined }));
    asked.set('host', folders[0] ?? '');
    if (ports?.[0] !== undefined) asked.set('port', ports[0]);
  }
  const rest = asked.size === 0 ? '' : `?${asked.toString()}`;
  return { url: `${begin}${server.split(',')[0] ?? ''}${path}${rest}`, hosts };
}

/** Names a server for people. */
export function hostName({ host = 'the default server', port }: ServerHost): string {
  return port === undefined ? host : `${host}:${port}`;
}

/** Reads a URL: `shown` for people, without user and password; a host is '' for a socket. undefined where it is none of a database. */
export function parsePostgresUrl(url: string) {
  const { user, password, server = '', path = '', query } = form.exec(url)?.groups ?? {};
  if (!/^\/[^/]+$/.test(path)) return undefined;
  const asked = new URLSearchParams(query);
  const socket = asked.get('host');
  return {
    shown: `${server === '' ? (socket ?? '') : server}${path}`,
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

// The configuration in the form that the gateway reads: a slice for each part, defaults filled in, paths absolute.

import type { Account, DkimKeyName } from '../../accounts/account.ts';
import type { LogLevel } from '../../base/log.ts';
import type { DeliverySettings } from '../../delivery/settings.ts';
import type { TlsReportSettings } from '../../delivery/tls-report/make-report.ts';
import type { ConfiguredWebhook } from '../../delivery/webhooks/webhook.ts';
import type { RestLimits } from '../../doors/rest/settings.ts';
import type { BounceSettings, SmtpSettings } from '../../doors/smtp/settings.ts';
import type { CustomErrorSettings, EdgeSettings } from '../../edge/zone/zone.ts';
import type { ReportLimits } from '../../spool/reports/report.ts';
import type { SpoolLimits } from '../../spool/spool-limits.ts';
import type { ConnectionLimits } from '../../web/http/listener/connection-limit.ts';
import type { HostPort } from './addresses.ts';
import type { AccountEntry, FileContents, Section, ZoneEntry } from './schema.ts';

/** A section of the file with every key filled in; config/postern.yaml says what they mean. */
type Filled<Name extends Section> = Required<NonNullable<FileContents[Name]>>;

/** Where a secret comes from. It is read only when it is used. */
export type SecretSource =
  | { readonly kind: 'variable'; readonly name: string }
  /** Absolute path; surrounding white space is no part of the secret. */
  | { readonly kind: 'file'; readonly file: string };

/** A secret that the file names. */
export interface NamedSecret {
  /** Where in the file it is named, for errors: `accounts[0].credentials[1]`. */
  readonly path: string;
  readonly source: SecretSource;
}

/** What the platform calls itself and signs with (D26, D27, D40a). */
export interface PlatformSettings {
  /** A-label, lower case; d= of the platform's signature, the domain of every Message-ID. */
  readonly domain: string;
  /** A-label, lower case; `domain` or below it. */
  readonly bounceDomain: string;
  /** Absolute path of the key that authenticates the tokens in reverse-paths (D26). */
  readonly hmacKeyFile: string;
  readonly dkim: readonly DkimKeyName[];
}

/** The HTTP listener's slice (D62, D67, D68). */
export interface HttpSettings {
  readonly listen: HostPort;
  readonly tlsListen?: HostPort;
  /** The address of the API's own listener. If absent, the API answers on the other listeners, beside the zones. */
  readonly adminListen?: HostPort;
  /** Lower case. */
  readonly apiHosts: readonly string[];
  /** Without a slash at the end. If absent, it is made from the bound address (D62). */
  readonly docsBaseUrl?: string;
  /** The token for /metrics. If absent, anybody who reaches /metrics may read it. */
  readonly metricsToken?: MetricsTokenSettings;
  readonly limits: ConnectionLimits;
}

/** The console's slice. */
export interface ConsoleSettings {
  readonly enabled: boolean;
  /** Where people reach it, such as `https://gateway.example`. Absent: replies cannot say where to look. */
  readonly publicUrl?: string;
}

/** The token that readers of /metrics show. */
export interface MetricsTokenSettings extends NamedSecret {
  /** SHA-256 of the token, 64 hexadecimal digits, read at each access; undefined where the token is missing. */
  readonly sha256: string | undefined;
}

/** A token that the configuration gives to a credential (D93). */
export interface ConfiguredToken extends Pick<NamedSecret, 'path'>, CredentialName {
  readonly source: SecretSource | { readonly kind: 'sha256'; readonly hex: string };
}

/** What edge and proxy need of an account beside what mail needs (D65, D85, D86). */
export type EdgeAccount = Pick<AccountEntry, 'email' | 'entitlements' | 'prefixes' | 'virtualNetworks'> & {
  readonly id: string;
  readonly customErrors?: CustomErrorSettings;
  readonly globalKey?: SecretSource;
};

/** A zone with its defaults filled in (D99). `account` is the account's id. */
export type Zone = Omit<ZoneEntry, 'customErrors'> &
  Required<Pick<ZoneEntry, 'hostnames' | 'ipv4Quota' | 'protocols'>> & { readonly customErrors?: CustomErrorSettings };

/** A credential, by the id of its account. */
export interface CredentialName {
  readonly account: string;
  readonly credential: string;
}

/** Reports to senders about their mail. */
export interface ReportSettings extends ReportLimits {
  /** The largest message that a report returns whole where RET=FULL asks for it, in octets. */
  readonly returnBytes: number;
}

/** Where everything is kept: SQLite's file, absolute, or a database of PostgreSQL. */
export type DatabaseSettings =
  | { readonly engine: 'sqlite'; readonly file: string }
  | {
      readonly engine: 'postgres';
      readonly server: string;
      /** The server is on another host, and the URL asks for no TLS. */
      readonly isInTheClear: boolean;
      /** After how many seconds without a sign another process is taken for dead. */
      readonly takeOverSeconds: number;
      /** Whether all its gateways count messages a minute and requests to zones together. */
      readonly shareLimits: boolean;
      /** With the password, which is read at each use. */
      readonly url: string;
    };

/** What the program asks about an engine. `isShared`: a server of its own, for any number of processes, which may be away for a while. */
export const engineTraits: Readonly<Record<DatabaseSettings['engine'], { readonly isShared: boolean }>> = {
  sqlite: { isShared: false },
  postgres: { isShared: true },
};

/** The whole configuration, frozen. */
export interface Config {
  readonly file: string;
  readonly dataDir: string;
  readonly certsDir: string;
  readonly database: DatabaseSettings;
  readonly log: { readonly level: LogLevel };
  readonly drainSeconds: number;
  readonly processes: number;
  /** Whose token a start in development makes (D95). Where it is set, missing keys and certificates are made as well. */
  readonly development?: CredentialName;
  readonly platform: PlatformSettings;
  readonly limits: {
    /** Octets of memory for messages under way. If absent, they are computed from the memory that the process may use. */
    readonly bodiesInFlightBytes?: number;
  };
  readonly smtp: SmtpSettings;
  readonly bounces: BounceSettings;
  readonly rest: { readonly limits: RestLimits };
  readonly spool: SpoolLimits;
  readonly reports: ReportSettings;
  readonly events: Filled<'events'>;
  readonly journal: Filled<'journal'>;
  /** With the webhooks of the accounts in the file (D54). */
  readonly webhooks: Filled<'webhooks'> & { readonly configured: readonly ConfiguredWebhook[] };
  readonly tlsReports: TlsReportSettings;
  readonly http: HttpSettings;
  readonly console: ConsoleSettings;
  readonly delivery: DeliverySettings;
  readonly accounts: readonly Account[];
  readonly tokens: readonly ConfiguredToken[];
  /** Sources of the routes' passwords, and the files of issuers that they trust, so that missing ones are told at start. */
  readonly routeSecrets: readonly NamedSecret[];
  /** Sources of the secrets of the file's webhooks, so that missing ones are told at start. */
  readonly webhookSecrets: readonly NamedSecret[];
  readonly edge: EdgeSettings;
  readonly proxy: Filled<'proxy'>;
  readonly edgeAccounts: readonly EdgeAccount[];
  readonly zones: readonly Zone[];
  readonly warnings: readonly string[];
}

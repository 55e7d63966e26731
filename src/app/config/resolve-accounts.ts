// Makes accounts, their tokens, and zones from the file's contents: defaults filled in, domains as A-labels (D50, D93, D99).

import { hash } from 'node:crypto';
import { resolve } from 'node:path';
import type { Account, Credential, SendingDomain } from '../../accounts/account.ts';
import { observePeriod } from '../../accounts/observe-period.ts';
import { stripRules } from '../../accounts/strip-rules.ts';
import type { ConfiguredWebhook } from '../../delivery/webhooks/webhook.ts';
import { ruleOf } from '../../edge/custom/custom-error-rules.ts';
import { patternsOfSets } from '../../pipeline/policy/strip-sets.ts';
import { isEventKind } from '../../spool/events/mail-event.ts';
import { domainOf } from './addresses.ts';
import * as defaults from './defaults.ts';
import { findAccount } from './mail-checks.ts';
import { dkimOf, type Resolving, sourceOf } from './resolve-mail.ts';
import type { AccountEntry, CredentialEntry, ZoneEntry } from './schema.ts';
import { readSecret } from './secrets.ts';
import { sendersOf } from './sender-maps.ts';
import type { Config, ConfiguredToken, CredentialName, EdgeAccount, Zone } from './settings.ts';

type Contents = defaults.CompleteContents;

function resolveCredential(entry: CredentialEntry, contents: Contents): Credential {
  return {
    name: entry.name,
    scopes: new Set(entry.scopes ?? ['email:send' as const]),
    strip: stripRules({ ...entry, strip: [...(entry.strip ?? []), ...patternsOfSets(entry.stripSets ?? [])] }),
    trustedHop: entry.trustedHop ?? false,
    ...(entry.defaultDomain === undefined ? {} : { defaultDomain: domainOf(entry.defaultDomain) }),
    ...(entry.legacyCharset === undefined ? {} : { legacyCharset: entry.legacyCharset }),
    ...(entry.policy?.observe ? { observe: observePeriod(entry.policy.observe.until) } : {}),
    ...sendersOf(entry, contents),
  };
}

function resolveSendingDomain(entry: NonNullable<AccountEntry['sendingDomains']>[number]): SendingDomain {
  return {
    name: domainOf(entry.name),
    subdomains: entry.subdomains ?? true,
    ...(entry.returnPathDomain === undefined ? {} : { returnPathDomain: domainOf(entry.returnPathDomain) }),
    dkim: dkimOf(entry.dkim ?? defaults.domainKeys),
  };
}

/** One account in the form that the doors (SMTP and REST) and the pipeline use. */
export function resolveAccount(entry: AccountEntry, contents: Contents): Account {
  const credentials = (entry.credentials ?? []).map((one) => resolveCredential(one, contents));
  return {
    id: entry.id.toLowerCase(),
    name: entry.name,
    plan: entry.plan ?? 'enterprise',
    sendingDomains: (entry.sendingDomains ?? []).map(resolveSendingDomain),
    limits: { ...entry.limits },
    showClientAddress: entry.showClientAddress ?? true,
    tlsRequiredNo: entry.tlsRequiredNo ?? false,
    ...(entry.threadRepair === true ? { threadRepair: true } : {}),
    ...(entry.reports ? { reports: entry.reports } : {}),
    suppress: { ...defaults.suppress, ...entry.suppress },
    credentials: new Map(credentials.map((credential) => [credential.name, credential])),
  };
}

/** The tokens that the file gives to credentials. */
export function resolveTokens({ contents, folders }: Resolving): ConfiguredToken[] {
  return contents.accounts.flatMap((account, at) =>
    (account.credentials ?? []).flatMap((entry, index): ConfiguredToken[] => {
      const hex = entry.tokenSha256?.toLowerCase();
      const source = sourceOf(entry.tokenEnv, entry.tokenFile, folders) ?? (hex && ({ kind: 'sha256', hex } as const));
      const path = `accounts[${at}].credentials[${index}]`;
      return source ? [{ account: account.id.toLowerCase(), credential: entry.name, path, source }] : [];
    }),
  );
}

/** The webhooks of the file (D54). Their ids come from account and name, so that each keeps its place in the events over starts. */
export function resolveWebhooks({ contents, folders, env }: Resolving): {
  readonly configured: ConfiguredWebhook[];
  readonly webhookSecrets: Config['webhookSecrets'];
} {
  const found = contents.accounts.flatMap((account, at) =>
    (account.webhooks ?? []).map((entry, index) => {
      const path = `accounts[${at}].webhooks[${index}]`;
      const sources = [
        sourceOf(entry.secretEnv, entry.secretFile, folders),
        sourceOf(entry.previousSecretEnv, entry.previousSecretFile, folders),
      ].filter((source) => source !== undefined);
      const id = hash('sha256', `webhook ${account.id.toLowerCase()} ${entry.name}`).slice(0, 32);
      return {
        webhook: {
          ...{ id, account: account.id.toLowerCase(), url: entry.url, note: entry.name },
          kinds: entry.kinds?.filter(isEventKind),
          secrets: () => sources.map((source) => readSecret(source, env, path)),
        },
        secrets: sources.map((source) => ({ path, source })),
      };
    }),
  );
  return { configured: found.map((one) => one.webhook), webhookSecrets: found.flatMap((one) => one.secrets) };
}

/** The development settings, with the account named by its id. */
export function resolveDevelopment(contents: Contents): CredentialName | undefined {
  if (!contents.development) return undefined;
  const { account, credential } = { ...defaults.development, ...contents.development };
  return { account: findAccount(contents, account)?.id.toLowerCase() ?? account, credential };
}

/** Custom errors with the page's file as an absolute path; a relative one lies under the working directory. */
function customErrorsOf({ customErrors }: AccountEntry | ZoneEntry, { cwd }: Resolving['folders']) {
  if (!customErrors) return {};
  const { rules, errorPage } = customErrors;
  const page = errorPage?.file === undefined ? errorPage : { file: resolve(cwd, errorPage.file) };
  return { customErrors: { ...(rules ? { rules: rules.map(ruleOf) } : {}), ...(page ? { errorPage: page } : {}) } };
}

/** What edge and proxy need of an account. */
export function resolveEdgeAccount(entry: AccountEntry, { folders }: Resolving): EdgeAccount {
  return {
    id: entry.id.toLowerCase(),
    ...(entry.email === undefined ? {} : { email: entry.email }),
    entitlements: entry.entitlements ?? [],
    prefixes: entry.prefixes ?? [],
    virtualNetworks: entry.virtualNetworks ?? [],
    ...customErrorsOf(entry, folders),
    ...(entry.globalKeyEnv === undefined ? {} : { globalKey: { kind: 'variable', name: entry.globalKeyEnv } as const }),
  };
}

/** A zone with the defaults of D99. */
export function resolveZone(entry: ZoneEntry, { contents, folders }: Resolving): Zone {
  const name = domainOf(entry.name);
  const { customErrors: _, applications, ...rest } = entry;
  return {
    ...rest,
    name,
    id: entry.id.toLowerCase(),
    account: findAccount(contents, entry.account)?.id.toLowerCase() ?? entry.account,
    hostnames: (entry.hostnames ?? [name]).map(domainOf),
    ipv4Quota: entry.ipv4Quota ?? 10,
    protocols: entry.protocols ?? { tcp: ['1-65535'], udp: ['1-65535'] },
    ...customErrorsOf(entry, folders),
    // In the form in which origin_dns.name is compared with them (D86); `*` stays as it is.
    ...(entry.permittedOriginZones ? { permittedOriginZones: entry.permittedOriginZones.map(domainOf) } : {}),
    ...(applications ? { applications: applications.map((one) => ({ ...one, id: one.id.toLowerCase() })) } : {}),
    ...(entry.loadBalancers ? { loadBalancers: entry.loadBalancers.map(domainOf) } : {}),
  };
}

// What the configuration may say but hardly means: told at start and by `postern config check`.

import { isIP } from 'node:net';
import type { DeliverySettings } from '../deliver/settings.ts';
import type { SmtpSettings } from '../ingress/smtp/settings.ts';
import { type Environment, globalKeyOf } from './secrets.ts';
import type { Config } from './settings.ts';

const shortestToken = 16;

/** One line each. */
export function warningsOf(
  { smtp, delivery, edgeAccounts }: Pick<Config, 'edgeAccounts'> & { smtp: SmtpSettings; delivery: DeliverySettings },
  env: Environment,
): string[] {
  const warnings: string[] = [];
  for (const { name, role, tls, allowInsecureAuth, credential } of smtp.listeners) {
    if (role === 'submission' && tls === 'none' && !credential && !allowInsecureAuth) {
      warnings.push(`smtp listener "${name}" takes no mail: it has neither TLS for AUTH nor a credential of its own`);
    }
    if (allowInsecureAuth && tls !== 'implicit') {
      warnings.push(`smtp listener "${name}" takes tokens in the clear (allowInsecureAuth)`);
    }
  }
  for (const route of delivery.routes) {
    if (route.type !== 'smarthost' || !route.auth || route.host === 'localhost' || /^127\.|^::1$/.test(route.host))
      continue;
    if (!route.tlsVerify) {
      const host = isIP(route.host) === 6 ? `[${route.host}]` : route.host;
      warnings.push(`route "${route.name}" sends its password to whoever answers as ${host} (tlsVerify: false)`);
    }
  }
  for (const account of edgeAccounts) {
    const { email, globalKey } = account;
    if (globalKey?.kind !== 'variable') continue;
    if (email === undefined) warnings.push(`account ${account.id} has a globalKeyEnv but no email to use it with`);
    else if (globalKeyOf(account, env) === undefined) {
      warnings.push(`the global key of ${email} opens nothing: the environment variable ${globalKey.name} is not set`);
    }
  }
  const token = env['POSTERN_TOKEN']?.trim() ?? '';
  if (token !== '' && token.length < shortestToken) {
    warnings.push(`POSTERN_TOKEN has ${token.length} characters: one that short can be guessed`);
  }
  return warnings;
}

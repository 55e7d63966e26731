// Who calls, and which account, scopes and zone a request is for.

import { of } from '../guard.ts';

const app = ['test/web/http/app.test.ts'];
const accounts = ['test/accounts/accounts.test.ts', 'test/e2e/two-accounts.test.ts'];
const consoleGuard = ['test/e2e/console-guard.test.ts'];
const consoleApp = ['test/web/console/sign-in.test.ts'];
const sessionStore = ['test/web/console/session-store.test.ts'];
const limits = ['test/accounts/limits.test.ts'];
const smtp = ['test/doors/smtp/live-state.test.ts', 'test/dialogues.test.ts', 'test/doors/smtp/connections.test.ts'];
const live = ['test/e2e/two-accounts.test.ts', 'test/web/admin/live-streams.test.ts'];
const metrics = ['test/web/http/metrics-token.test.ts'];
const secrets = [
  'test/app/config/load-config.test.ts',
  'test/app/config/environment.test.ts',
  'test/app/config/faults.test.ts',
];
const tokenStore = ['test/accounts/token-store.test.ts'];
const endpoints = ['test/web/admin/endpoints.test.ts'];

/** Who calls, and which account, scopes and zone a request is for. */
export const callers = [
  ...of(
    'app/config/merged-cure.ts',
    ['test/app/config/merged-cure.test.ts', 'test/cli/report.test.ts'],
    [
      ['(left >= within.first && left <= within.last)', 'left >= 1'],
      ['!isDeepStrictEqual(changed.toJS(), wanted) || ', ''],
      [' || !isSound(source, after)', ''],
    ],
  ),
  ...of('accounts/accounts.ts', accounts, [
    ['submitterIn(byId.get(found.account), ', 'submitterIn(accounts[0], '],
    ['const key = `${account.id}/${credential.name} ', 'const key = `${credential.name} '],
    ['/${credential.name} ${own.join', '/${own.join'],
    [
      "const key = `${account.id}/${credential.name} ${own.join(' ')}`",
      'const key = `${account.id}/${credential.name}`',
    ],
    ["'scopes' in found && found.scopes ? narrow(submitter, found.scopes) : submitter", 'submitter'],
    ['return covering?.account === account.id ? covering.domain : undefined', 'return covering?.domain'],
    ['(name === domain || found.domain.subdomains)', 'true'],
    [
      '[`${email.toLowerCase()} ${sha256}`',
      '[`${sha256}`',
      ['test/web/http/app.test.ts', 'test/web/console/sign-in.test.ts'],
    ],
    ['account && submitters.get(account)?.get(credential)', '[...submitters.values()][0]?.get(credential)'],
  ]),
  ...of('accounts/token-store.ts', accounts, [
    ['scopes ? own.filter((scope) => scopes.includes(scope)) : own', 'own'],
    ['scopes ? own.filter((scope) => scopes.includes(scope)) : own', '[...(scopes ?? own)]'],
    ['record.revokedAt === undefined && ', '', [...tokenStore, ...endpoints]],
  ]),
  ...of('accounts/account.ts', app, [
    ['return own.has(scope) ||', 'return true ||'],
    ["'console:edit': ['admin']", "'console:edit': ['admin', 'console:read']", consoleGuard],
    [
      "'console:read': ['console:edit', 'admin']",
      "'console:read': ['console:edit', 'admin', 'email:send']",
      consoleApp,
    ],
  ]),
  ...of(
    'accounts/token-store.ts',
    [...tokenStore, ...endpoints],
    [
      ['account = coalesce($1, account) ORDER', 'account = coalesce(account, $1) ORDER'],
      ['WHERE account = $1 AND (created_at, id)', 'WHERE $1 IS NOT NULL AND (created_at, id)'],
      ['account = coalesce($3, account) RETURNING', 'account = coalesce(account, $3) RETURNING'],
    ],
  ),
  ...of('accounts/limits.ts', limits, [
    ['recipients - $3 WHERE account = $1 AND day = $2', 'recipients - $3 WHERE $1 IS NOT NULL AND day = $2'],
    ['recipients_per_day WHERE account = $1 AND day < $2', 'recipients_per_day WHERE $1 IS NOT NULL AND day < $2'],
    [
      'SELECT recipients FROM recipients_per_day WHERE account = $1',
      'SELECT recipients FROM recipients_per_day WHERE $1 IS NOT NULL',
    ],
  ]),
  ...of('accounts/minute-window.ts', limits, [
    [
      'windows.get(account) ?? new MinuteWindow();\n    windows.set(account, window)',
      "windows.get('') ?? new MinuteWindow();\n    windows.set('', window)",
    ],
  ]),
  ...of('web/http/authorization.ts', app, [
    ['if (!wanted.some((each) => hasScope(credential, each)))', 'if (wanted.length === 0)'],
    ['wanted.some((each) => hasScope', 'wanted.every((each) => hasScope', consoleGuard],
    ['named === undefined || named === account.id ||', 'named !== null ||'],
    ['if (other?.id === account.id) return submitter', 'if (other) return submitter'],
    ['|| isGlobalKey || !credential', '|| !credential'],
    [" || !credential.scopes.has('admin')", ''],
    ['return { account: other, credential }', 'return submitter'],
    ['if (account === undefined) throw new Refusal([unknownZone])', '', ['test/e2e/two-accounts.test.ts']],
    ['authorization === undefined && key === undefined ? await', 'email !== null ? await', consoleApp],
    [
      'permitted({ submitter, isGlobalKey }, request, { scope, parts });\n    return undefined;',
      'return undefined;',
      live,
    ],
  ]),
  ...of('web/http/v4-routes.ts', app, [['if (config?.scope === undefined) throw', 'if (config === null) throw']]),
  ...of('web/http/plain-routes.ts', metrics, [
    ['shown !== undefined && isToken(shown, token)', 'shown !== undefined'],
    ['return sha256 !== undefined && ', 'return sha256 === undefined || '],
    ['if (header === undefined) return oneLine', "if (header === '') return oneLine"],
  ]),
  ...of('app/wiring/http.ts', consoleGuard, [
    ['accountOfZone: (zone) => accountOfZone.get(zone)', 'accountOfZone: () => [...accountOfZone.values()][0]'],
  ]),
  ...of('web/console/sessions.ts', consoleApp, [
    ["return hasScope(credential, 'console:read')", 'return credential.scopes.size > 0'],
    ['if (mayUseConsole(submitter)) return', 'if (submitter) return'],
    ['return submitter && mayUseConsole(submitter) ?', 'return submitter ?'],
    ['linked?.account !== account || linked', 'linked === undefined || linked'],
    [' || linked.credential !== credential', ''],
    [
      'if (token !== undefined) return await accounts.authenticateHash(token)',
      'if (token !== undefined) return accounts.submitter(account, credential)',
    ],
    ['if (linked?.account !== account || linked.credential !== credential) return undefined', ''],
  ]),
  ...of('web/console/session-routes.ts', consoleApp, [
    ["hasScope(credential, 'admin') ? allAccounts : [account]", 'allAccounts'],
    ['minutes.take(`sign-in ${account.id}`,', "minutes.take('sign-in',"],
  ]),
  ...of('web/console/session-store.ts', sessionStore, [
    ['WHERE account = $1 AND sha256 <> $2 ORDER', 'WHERE $1 IS NOT NULL AND sha256 <> $2 ORDER'],
    ['console_sessions WHERE sha256 = $1 AND expires_at', 'console_sessions WHERE $1 IS NOT NULL AND expires_at'],
    ["'DELETE FROM console_sessions WHERE sha256 = $1'", "'DELETE FROM console_sessions WHERE $1 IS NOT NULL'"],
    ['FROM console_links WHERE sha256 = $1 RETURNING', 'FROM console_links WHERE $1 IS NOT NULL RETURNING'],
  ]),
  ...of('doors/smtp/authentication.ts', smtp, [
    ["if (found?.credential.scopes.has('email:send'))", 'if (found)'],
    ["if (!found.credential.scopes.has('email:send'))", 'if (!found.credential.name)'],
    [
      "found && (userName === 'api_token' || userName === found.account.id || userName === found.account.name)",
      'found',
    ],
  ]),
  ...of('doors/smtp/smtp-door.ts', smtp, [
    ["if (!submitter.credential.scopes.has('email:send'))", 'if (!submitter.credential.name)'],
    ['(credential === undefined) !== (listener.allowFrom.length === 0)', 'credential === null'],
  ]),
  ...of('doors/smtp/mail-commands.ts', smtp, [
    ['if (accounts.sendingDomain(account, domain)) return undefined', 'if (account) return undefined'],
  ]),
  ...of('app/config/secrets.ts', secrets, [
    ['owner.account !== token.account || ', ''],
    [' || owner.credential !== token.credential', ''],
    ['token.account === development?.account && ', 'development !== undefined && '],
    [' && token.credential === development.credential', ''],
  ]),
];

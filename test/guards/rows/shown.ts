// What an account sees and does of its mail.

import { of } from '../guard.ts';

const endpoints = ['test/web/admin/endpoints.test.ts'];
const twoAccounts = ['test/e2e/two-accounts.test.ts'];
const consoleGuard = ['test/e2e/console-guard.test.ts > an account sees and changes nothing'];
const queue = ['test/web/admin/queue.test.ts'];
const journal = ['test/e2e/journal.test.ts'];
const live = ['test/e2e/two-accounts.test.ts', 'test/web/admin/live-streams.test.ts'];
const mailEvents = ['test/web/admin/mail-events.test.ts'];
const figures = ['test/app/wiring/figures.test.ts'];
const report = ['test/pipeline/report/read-events.test.ts', 'test/cli/report.test.ts'];

/** What an account sees and does of its mail. */
export const shown = [
  ...of('web/http/endpoint.ts', endpoints, [
    ["scope: method === 'GET' ? reads : edits", 'scope: reads', consoleGuard],
    ['isOfAccount ? submitter.account.name : undefined', 'undefined', consoleGuard],
    ['if (refused) throw refused;', '', ['test/web/http/changes-in-turn.test.ts']],
  ]),
  ...of('web/admin/journal/live-hub.ts', live, [
    ['if (account === undefined || account === row.item.account) tell(row)', 'tell(row)'],
    ['limit: 1000, kinds, account })', 'limit: 1000, kinds })'],
  ]),
  ...of('web/admin/journal/live-endpoint.ts', live, [
    ["return submitter !== undefined && hasScope(submitter.credential, 'admin')", 'return submitter !== undefined'],
    ['isOperator(request) ? undefined : account', 'undefined'],
    ['this.#hub.watch({ account, tell', 'this.#hub.watch({ account: undefined, tell'],
    ['this.#hub.missed(after, account)', 'this.#hub.missed(after, undefined)'],
    ['if (await this.#refusedNow()) this.end()', 'await this.#refusedNow()'],
    ['streams.open(request, reply, of)', 'streams.open(request, reply, undefined)'],
  ]),
  ...of('web/admin/journal/journal-endpoints.ts', consoleGuard, [
    ['...{ account, credential, client', '...{ credential, client'],
    ['await journal.find(id.toLowerCase(), account)', 'await journal.find(id.toLowerCase())'],
    ['{ account: entry.account, message: entry.id }', "{ account: '', message: entry.id }", journal],
    [
      "account?.credentials.get(entry.facts.credential ?? '')",
      'account?.credentials.values().next().value',
      twoAccounts,
    ],
    ['readQuery(asked, of)', 'readQuery(asked, undefined)'],
    ['entryNamed(parts, id, of)', 'entryNamed(parts, id, undefined)'],
  ]),
  ...of('web/admin/journal/content-endpoints.ts', consoleGuard, [
    ['entryNamed(parts, id, of)', 'entryNamed(parts, id, undefined)'],
  ]),
  ...of('web/admin/journal/refusal-endpoints.ts', consoleGuard, [
    ['...{ since, account: of, credential', '...{ since, account: undefined, credential'],
    ["hasScope(caller, 'admin') && fileChanges", 'fileChanges', ['test/e2e/refusal-changes.test.ts']],
    ['owner?.credentials.get(credential)', 'owner?.credentials.values().next().value', twoAccounts],
    ['account(name)?.credentials.get(credential)', 'account(name)?.credentials.values().next().value', twoAccounts],
  ]),
  ...of('web/admin/journal/would-pass-endpoint.ts', consoleGuard, [["reads: 'admin'", "reads: 'console:edit'"]]),
  ...of('web/admin/journal/resend-endpoint.ts', twoAccounts, [
    ['entryNamed(parts, params.id, account.name)', 'entryNamed(parts, params.id, undefined)'],
    ["if (hasScope(credential, 'email:send')) return credential", 'if (credential) return credential'],
    ['if (!(await parts.suppressed(account, recipient))) continue', 'if (recipient) continue'],
    ["account.credentials.get(facts.credential ?? '') ?? caller", 'caller'],
  ]),
  ...of(
    'pipeline/report/findings.ts',
    ['test/pipeline/report/findings.test.ts'],
    [['const wanted = `${account}/${credential}`', 'const wanted = credential']],
  ),
  ...of(
    'pipeline/report/rehearse.ts',
    ['test/pipeline/report/findings.test.ts'],
    [['const own = `${account}/${credential}/${mailer}`', 'const own = `${credential}/${mailer}`']],
  ),
  ...of('pipeline/report/read-events.ts', report, [
    ['limit: pageEvents, kinds, account }', 'limit: pageEvents, kinds }'],
    ['if (query.credential !== undefined && credential !== query.credential) continue', ''],
  ]),
  ...of('web/admin/queue/queue-endpoints.ts', queue, [
    ["const isOperator = hasScope(credential, 'admin')", 'const isOperator = credential !== undefined'],
    ['return { account: of, isOperator,', 'return { account: undefined, isOperator,'],
    ['last_reply: who.isOperator ? lastReply(hop?.lastWords) : null', 'last_reply: lastReply(hop?.lastWords)'],
    ['by: isShown ? hold.by : null', 'by: hold.by'],
    ['why: isShown ? hold.why : null', 'why: hold.why'],
    ['releasable: isShown && hold.kind === kind', 'releasable: hold.kind === kind'],
    ['account: who.account };', 'account: undefined };'],
    ['parts.destinations(), who.account)', 'parts.destinations(), undefined)'],
  ]),
  ...of('web/admin/queue/queue-selection.ts', queue, [
    ['!item || (selection.account !== undefined && item.entry.account !== selection.account)', '!item'],
    ['limit: askedAtOnce, account, search', 'limit: askedAtOnce, search'],
    ['routeOf(entry.account, address) === route', 'true'],
    ['routeOf(entry.account, address)', "routeOf('dev', address)"],
  ]),
  ...of('web/admin/queue/queue-actions.ts', queue, [
    ['return isOperator || by.startsWith(`console ${account}/`)', 'return true'],
    ['by.startsWith(`console ${account}/`)', "by.startsWith('console ')"],
    ['by.startsWith(`console ${account}/`)', 'by.startsWith(`console ${account}`)'],
    ['!item || (actor.account !== undefined && item.entry.account !== actor.account)', '!item'],
    ['if (before && !mayLift(before, actor)) return nothing', ''],
    ['holds.filter((hold) => mayLift(hold, actor)).map(', 'holds.map('],
    ['const wanted = { ...selection, account: actor.account ?? selection.account }', 'const wanted = selection'],
    ["kind: 'account', value: account }", "kind: 'account', value: 'x' }"],
    ['one.kind === other.kind && one.value === other.value', 'one.kind === other.kind'],
    ['if (actor.isOperator) return mostHolds', 'if (holds) return mostHolds'],
    ['mostHolds - leftToOperator - holds.length', 'mostHolds - holds.length'],
    ["hold.kind !== 'account' && mayLift(hold, actor)", "hold.kind !== 'account'"],
    ['own.has(entry.id) ? await', 'entry.id ? await'],
  ]),
  ...of('web/admin/queue/queue-groups.ts', queue, [
    ['if (account !== undefined && line.account !== account) continue', ''],
  ]),
  ...of('web/admin/events/message-endpoints.ts', mailEvents, [
    ['limit: readAtOnce, account, message })', 'limit: readAtOnce, message })'],
  ]),
  ...of('web/admin/console/overview-endpoints.ts', twoAccounts, [
    ['account === undefined || tally.account === account', 'true'],
    ['account === undefined || line.account === account', 'true'],
    ['readSteps(parts.figures, steps, { account })', 'readSteps(parts.figures, steps, { account: undefined })'],
    ['overviewOf(parts, of, Number(minutes))', 'overviewOf(parts, undefined, Number(minutes))'],
  ]),
  ...of('app/wiring/console/console-endpoints.ts', twoAccounts, [
    ['zonesOf: (account) => config.zones.filter((zone) => zone.account === account)', 'zonesOf: () => config.zones'],
    ['account === undefined || (match?.accounts?.includes(account) ?? true)', 'true'],
  ]),
  ...of('app/wiring/console/figures.ts', twoAccounts, [
    ['accountsOfZones(config()).get(zone)', '[...accountsOfZones(config()).values()][0]'],
    ['oldest.get(account)', 'oldest.values().next().value', figures],
    ['oldest.get(tally.account)', 'oldest.values().next().value', figures],
  ]),
  ...of(
    'spool/figures/minute-figures.ts',
    ['test/spool/figures/figures.test.ts'],
    [
      ['this.#names.get(account)', 'this.#names.values().next().value'],
      ['const key = `${account} ${minute} ${name}`', 'const key = `${minute} ${name}`'],
    ],
  ),
  ...of(
    'app/wiring/build-parts.ts',
    ['test/e2e/refusal-changes.test.ts'],
    [['accounts.sendingDomain(one, domain)', 'accounts.sendingDomain(one, domain) ?? one.sendingDomains[0]']],
  ),
  ...of('web/admin/token-endpoints.ts', endpoints, [
    ['if (credential.scopes.has(one)) return []', 'if (credential) return []'],
    ['store.revoke({ id, account: account.id, now', 'store.revoke({ id, now'],
    ['account?.credentials.get(credential), record', 'account?.credentials.values().next().value, record'],
    ["edits: 'admin'", "edits: ['admin', 'console:read']", consoleGuard],
  ]),
  ...of('web/admin/domain-endpoints.ts', endpoints, [
    ['checking.get(account.id)', '[...checking.values()][0]'],
    ['last.get(account.id)', '[...last.values()].at(-1)'],
  ]),
  ...of('web/admin/console/failure-endpoints.ts', twoAccounts, [
    ['byZone.get(zone.name)', '[...byZone.values()].at(0)'],
  ]),
  ...of('web/admin/domain-endpoints.ts', consoleGuard, [
    ['account.sendingDomains.find((domain) => domain.name === name.toLowerCase())', 'account.sendingDomains[0]'],
  ]),
];

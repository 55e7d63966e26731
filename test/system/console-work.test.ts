// The pages of the console that change things and look outside, in a real browser: webhooks with an endpoint that fails, DNS with
// what is missing and wrong, the queue and a message by their buttons, settings after reloads, zones and applications with traffic.

import { createServer, get, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, screenshotSizes } from '../support/browser-pages.ts';
import { swaks } from '../support/console-mail.ts';
import { accessFaults, type ConsolePage, openConsolePage, sideways } from '../support/console-pages.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { startHookEndpoint } from '../support/hook-endpoint.ts';
import { testToken } from '../support/postern-process.ts';
import { type RefusingHop, startRefusingHop } from '../support/refusing-hop.ts';
import { type Reloadable, startReloadable } from '../support/reloadable.ts';
import { requirePrograms } from './programs.ts';

let gateway: Reloadable;
let browser: Browser;
let hop: RefusingHop;
let site: Server;
let origin: string;

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  requirePrograms('chromium-headless-shell', 'swaks');
  hop = await startRefusingHop({
    later: { rcpt: '450 4.2.1 Mailbox busy' },
    gone: { rcpt: '550 5.1.1 No such user here' },
  });
  site = createServer((_request, response) => response.end('Hello'));
  await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
  gateway = await startReloadable((config) => {
    const to = (name: string, port: number) => ({
      ...{ name, type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none' },
      match: { recipientDomains: [`${name}.example`] },
    });
    // Nothing listens at port 9.
    config.routes.unshift(to('down', 9), to('hop', hop.port));
    config['webhooks'] = { allowHttp: true, allowNetworks: ['127.0.0.0/8'] };
    const zone = (name: string, digit: string, port: number) => ({
      ...{ name, id: digit.repeat(32), account: 'dev', origin: `http://127.0.0.1:${port}` },
    });
    (config['zones'] as object[]).push(zone('good.example', '3', portOf(site)), zone('bad.example', '4', 9));
  });
  origin = `http://127.0.0.1:${gateway.postern.ports['http']}`;
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await gateway?.postern.cleanUp();
  hop?.close();
  site?.closeAllConnections();
  await new Promise((done) => site?.close(done));
});

/** Asks the API as the account. */
async function call<Result>(method: string, path: string, body?: object): Promise<Result> {
  const answer = await fetch(`${origin}/client/v4/${path}`, {
    method,
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return ((await answer.json()) as { readonly result: Result }).result;
}

function send(to: string, subject: string): Promise<unknown> {
  const body = { from: 'shop@example.com', to, subject, text: 'x' };
  return call('POST', 'accounts/dev/email/sending/send', body);
}

/** Opens a signed-in page for one test and closes it afterwards. */
async function withPage(look: (opened: ConsolePage) => Promise<void>): Promise<void> {
  const opened = await openConsolePage(browser, origin, { viewport: screenshotSizes.desktop });
  try {
    await look(opened);
    expect(opened.complaints).toEqual([]);
    expect(opened.requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'))).toEqual([]);
  } finally {
    await opened.close();
  }
}

/** What has to hold of every dialog: no serious fault of access, room on the smallest phone, and the focus within it. */
async function dialogHolds(page: Page): Promise<Locator> {
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  expect(await accessFaults(page)).toEqual([]);
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await sideways(page)).toBe(0);
  const over = '(box => box.scrollWidth - box.clientWidth)(document.querySelector("dialog[open]"))';
  expect(await page.evaluate(over)).toBe(0);
  await page.setViewportSize(screenshotSizes.desktop);
  for (let presses = 0; presses < 30; presses += 1) await page.keyboard.press('Tab');
  // Behind the last control the browser's own come, and then the first one again.
  expect(
    await page.evaluate('document.activeElement === document.body || !!document.activeElement.closest("dialog")'),
  ).toBe(true);
  return dialog;
}

test('a webhook is made, told, fails, is tried again, changed, turned off and on, and removed', async () => {
  let status = 500;
  const hook = await startHookEndpoint(() => status);
  await withPage(async ({ page, open }) => {
    await open('/webhooks');
    await page.getByText('There is no webhook').waitFor();
    await page.getByRole('button', { name: 'Make a webhook' }).click();
    await page.getByRole('dialog').waitFor();
    expect(await page.evaluate('document.activeElement.labels[0].textContent')).toBe('URL');
    let dialog = await dialogHolds(page);
    await dialog.getByLabel('URL').fill('ftp://nowhere.example');
    await dialog.getByRole('button', { name: 'Make the webhook' }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByLabel('URL').fill(hook.url);
    await dialog.getByLabel('Delivered', { exact: true }).check();
    await dialog.getByLabel('Refused', { exact: true }).check();
    // Two presses make one webhook.
    await dialog.getByRole('button', { name: 'Make the webhook' }).dblclick();
    dialog = page.getByRole('dialog', { name: 'Copy the secret' });
    expect(await dialog.locator('.secret code').textContent()).toMatch(/^whsec_.{40}/);
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    expect(await page.getByRole('row').count()).toBe(2);
    await page.getByRole('link', { name: hook.url }).click();
    await page.getByText('It has not been told of anything').waitFor();
    await swaks(gateway.postern, ['--header', 'Subject: Hooked', '--header', 'Precedence: urgent', '--body', 'x']);
    await swaks(gateway.postern, ['--header', 'Subject: Hooked', '--body', 'x']);
    await expect.poll(() => hook.requests.length).toBeGreaterThan(1);
    status = 200;
    // It is tried again after 5 s.
    const look = page.getByRole('button', { name: 'Look again' });
    const row = page.getByRole('row');
    await expect
      .poll(
        async () => {
          await look.click();
          return await row.filter({ hasText: 'Done' }).count();
        },
        { timeout: 30_000 },
      )
      .toBe(2);
    expect(await row.filter({ hasText: 'Failed' }).filter({ hasText: 'HTTP 500' }).count()).toBe(2);
    expect(await row.filter({ hasText: 'Done' }).first().locator('td.number').first().textContent()).toBe('2');
    expect(await accessFaults(page)).toEqual([]);
    await page.getByRole('button', { name: 'Change' }).click();
    dialog = await dialogHolds(page);
    await dialog.getByLabel('What it is for').fill('The shop');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator('.lead', { hasText: 'The shop' }).waitFor();
    await page.getByRole('button', { name: 'Turn off' }).click();
    await page.locator('.facts').getByText('Off').waitFor();
    await page.getByRole('button', { name: 'Turn on' }).click();
    await page.locator('.facts').getByText('On', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Replace the secret' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replace the secret' }).click();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    // The focus is where it was.
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Remove');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Remove 1 webhook' }).click();
    await page.getByText('There is no webhook').waitFor();
  });
});

interface Domain {
  readonly name: string;
  readonly records: readonly { readonly purpose: string; readonly name: string; readonly value: string }[];
}

/** The names of a domain's records with the values that DNS is to have, but for a key that is wrong and a record that is missing. */
function publish(dns: DnsServer, { records }: Domain, isFaulty: boolean): void {
  for (const { purpose, name, value } of records) {
    const isKey = name.startsWith('s1._domainkey');
    if (purpose === 'mx') dns.names.set(name, { ...dns.names.get(name), mx: [value] });
    else if (isFaulty && purpose === 'dmarc') dns.names.delete(name);
    else dns.names.set(name, { ...dns.names.get(name), txt: [isFaulty && isKey ? 'v=DKIM1; k=rsa; p=AAAA' : value] });
  }
}

test('the records of domains are checked against DNS: in place, missing, wrong', async () => {
  const dns = await startDnsServer();
  gateway.change(({ delivery }) => Object.assign(delivery as object, { resolver: { servers: [dns.address] } }));
  expect((await gateway.reload()).code).toBe(0);
  const domains = await call<readonly Domain[]>('GET', 'accounts/dev/email/sending/domains');
  for (const domain of domains) publish(dns, domain, domain.name === 'example.com');
  await withPage(async ({ page, open }) => {
    await open('/domains');
    await page.getByRole('button', { name: 'Check DNS now' }).click();
    await page.getByText('2 of 5 records not in place.').waitFor();
    const panel = (name: string): Locator =>
      page.locator('.panel').filter({ has: page.getByRole('heading', { name }) });
    const record = panel('example.com').getByRole('listitem');
    await record.filter({ hasText: 's1._domainkey' }).getByText('Different').waitFor();
    await record.filter({ hasText: 's1._domainkey' }).getByText('p= is another key').waitFor();
    await record.filter({ hasText: '_dmarc' }).getByText('Missing').waitFor();
    expect(await panel('example.net').getByText('In place', { exact: true }).count()).toBe(4);
    expect(await accessFaults(page)).toEqual([]);
    const [com] = domains;
    if (com) publish(dns, com, false);
    await page.getByRole('button', { name: 'Check DNS now' }).click();
    await expect
      .poll(() => page.locator('.panel .note', { hasText: 'All records are in place' }).count())
      .toBe(domains.length);
  });
});

test('what waits is held, released, tried and dropped by its buttons, in the queue and on its page', async () => {
  await send('a@down.example', 'First');
  await send('b@down.example', 'Second');
  await send('later@hop.example', 'Later');
  await withPage(async ({ page, open }) => {
    await open('/queue');
    const row = (text: string): Locator =>
      page.getByRole('table', { name: 'Messages that wait' }).getByRole('row').filter({ hasText: text });
    // A next hop that was not reached has not tried it, though its words stand beside.
    await expect.poll(() => row('a@down.example').textContent(), { timeout: 20_000 }).toContain('not reached');
    await row('a@down.example').getByRole('checkbox').check();
    const bulk = page.getByRole('region', { name: 'Chosen messages' });
    await bulk.getByRole('button', { name: 'Hold' }).click();
    const dialog = await dialogHolds(page);
    await dialog.getByRole('button', { name: 'Hold 1 message' }).dblclick();
    await page.getByText('1 message held.').waitFor();
    await row('a@down.example')
      .getByText(/^Held since .* by admin dev\/default$/)
      .waitFor();
    expect(await accessFaults(page)).toEqual([]);
    await row('a@down.example').getByRole('link').click();
    await page.locator('h1').getByText('Held').waitFor();
    expect(await page.getByRole('button', { name: 'Hold' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Release' }).click();
    await page.getByRole('button', { name: 'Release 1 message' }).click();
    await page.getByText('1 message released.').waitFor();
    await page.locator('h1').getByText('Held').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByRole('button', { name: 'Try 1 message' }).click();
    await page.getByText('1 message tried at once.').waitFor();
    await page.getByRole('link', { name: 'Delivery' }).click();
    await page.getByText('Tried again').waitFor();
    await page.getByText('The next hop was not reached, which does not count as an attempt.').first().waitFor();
    await page.getByRole('button', { name: 'Drop' }).click();
    // Somebody else was faster.
    const [waiting] = await call<readonly { readonly id: string }[]>(
      'GET',
      'accounts/dev/email/sending/queue/messages?search=a@down',
    );
    await call('POST', 'accounts/dev/email/sending/queue/actions', { action: 'drop', ids: [waiting?.id] });
    await page.getByRole('button', { name: 'Drop 1 message' }).click();
    await page.getByText('No message was dropped: it has gone').waitFor();
    // A whole destination at once.
    await page.getByRole('link', { name: 'Queue' }).click();
    // How many wait is counted every two seconds, and the page looks every five.
    const destination = page.getByRole('table', { name: 'Destinations' }).getByRole('row', { name: 'Route down' });
    await expect.poll(() => destination.getByRole('cell').nth(2).textContent(), { timeout: 15_000 }).toBe('1');
    await page.getByRole('button', { name: 'Hold all: Route down' }).click();
    await page.getByRole('button', { name: 'Hold 1 recipient' }).click();
    await row('b@down.example').getByText('Held', { exact: true }).waitFor();
  });
});

test('a message tells what became of it in words', async () => {
  await send('gone@hop.example', 'Nobody there');
  await withPage(async ({ page, open }) => {
    await open('/messages?q=nobody');
    await page.getByRole('link', { name: 'Nobody there', exact: true }).click();
    await page.getByRole('link', { name: 'Delivery' }).click();
    const history = page.locator('.history');
    await history.locator('strong').getByText('Failed').waitFor();
    await history.getByText('550 5.1.1 No such user here').waitFor();
    await history.getByText('Suppressed').waitFor({ timeout: 20_000 });
    expect(await history.textContent()).not.toMatch(/[a-z]_[a-z]/);
    const instant = await history.locator('time').first().getAttribute('title');
    expect(instant).toMatch(/^\w+day.* \d\d:\d\d:\d\d .*\(\d{4}-\d\d-\d\dT[\d:.]+Z\)$/);
  });
});

test('settings tell what was wrong with a reload, and what the next one changed', async () => {
  await withPage(async ({ page, open }) => {
    await page.clock.install();
    await open('/settings');
    const good = JSON.stringify(gateway.config);
    gateway.write(good.replace('"drainSeconds":30', '"drainSeconds":"soon"'));
    expect((await gateway.reload()).code).not.toBe(0);
    // It comes by itself, for whoever has the page open beside the file.
    await page.clock.runFor(6000);
    await page.getByText('Why the last reload was refused').waitFor();
    await page.locator('pre', { hasText: 'drainSeconds' }).first().waitFor();
    expect(await accessFaults(page)).toEqual([]);
    gateway.change((config) => void (config['drainSeconds'] = 29));
    expect((await gateway.reload()).code).toBe(0);
    await page.clock.runFor(6000);
    await page.getByText('What the last reload changed').waitFor();
    await page.getByText('by the command postern reload').waitFor();
    expect(await page.getByText('Why the last reload was refused').count()).toBe(0);
  });
});

test('zones tell their failures with what each means, and applications what goes through them', async () => {
  for (const host of ['good.example', 'bad.example', 'bad.example']) {
    await new Promise((done, fail) => {
      const { ports } = gateway.postern;
      get({ host: '127.0.0.1', port: ports['http'], headers: { host } }, (answer) =>
        answer.resume().on('end', done),
      ).on('error', fail);
    });
  }
  await call('POST', `zones/${'1'.repeat(32)}/proxy/apps`, {
    protocol: 'tcp/8080',
    dns: { type: 'CNAME', name: 'web.example.com' },
    origin_direct: [`tcp://127.0.0.1:${portOf(site)}`],
  });
  const [application] = await call<readonly { readonly listening: readonly string[] }[]>(
    'GET',
    'accounts/dev/proxy/traffic',
  );
  // The figures are written down every two seconds.
  await expect
    .poll(() => call('GET', 'accounts/dev/edge/failures'))
    .toMatchObject({ zones: expect.arrayContaining([expect.objectContaining({ zone: 'bad.example', failed: 2 })]) });
  await withPage(async ({ page, open }) => {
    await page.clock.install();
    await open('/edge');
    const zone = page.locator('.panel').filter({ hasText: 'bad.example' });
    await zone.getByText('2 requests, of which 2 failed.').waitFor();
    await zone.getByRole('link', { name: 'What error 521 means, and what to do' }).click();
    await page.getByRole('heading', { name: /521/ }).first().waitFor();
    await page.goBack();
    await page.getByText('1 request, of which 0 failed.').waitFor();
    await page.getByLabel('Time').selectOption('1440');
    await page.getByText('Failures every 12 minutes').waitFor();
    await open('/proxy');
    await page.getByText('web.example.com').waitFor();
    expect(await (await fetch(`http://${application?.listening[0]}/`)).text()).toBe('Hello');
    await page.clock.runFor(6000);
    await expect
      .poll(() => page.getByRole('row').filter({ hasText: 'web.example.com' }).textContent(), { timeout: 20_000 })
      .toMatch(/tcp\/8080.*\d+ B\d+ B/);
    expect(await accessFaults(page)).toEqual([]);
  });
});

// What the console's live list costs the browser that shows it: rows come at a rate for a time, and the page is clicked. The rows are
// those of a gateway's own message with other ids, told by a server in between, so that the rate holds whatever the machine does.
// `npm run bench:live -- --seconds 600 --rate 200`. Wants Debian's chromium-headless-shell.

import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { uuidv7 } from '../src/base/ids.ts';
import { launchBrowser } from '../test/support/browser-pages.ts';
import { openConsolePage } from '../test/support/console-pages.ts';
import { testToken } from '../test/support/postern-process.ts';
import { startReloadable } from '../test/support/reloadable.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    rate: { type: 'string', default: '200' },
    scrolled: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const rate = Number(values.rate);
const streams = new Set<ServerResponse>();

/** Answers the live stream itself and hands all else to the gateway. */
function forward(port: number) {
  return (asked: IncomingMessage, answer: ServerResponse): void => {
    if (asked.url?.includes('/sending/live')) {
      answer.writeHead(200, { 'content-type': 'text/event-stream' });
      answer.write('event: alive\ndata: {}\n\n');
      streams.add(answer);
      answer.once('close', () => streams.delete(answer));
      return;
    }
    const { method, url: path, headers } = asked;
    const onward = request({ host: '127.0.0.1', port, method, path, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 500, response.rawHeaders);
      response.pipe(answer);
    });
    onward.on('error', () => answer.destroy());
    asked.pipe(onward);
  };
}

/** Tells of rows at the rate: each message is accepted, and delivered with the next event. @returns the function that ends it */
function tellOf(row: object): () => number {
  const begun = performance.now();
  let told = 0;
  let id = '';
  const timer = setInterval(() => {
    const due = ((performance.now() - begun) / 1000) * rate;
    let text = '';
    for (; told < due; told += 1) {
      const isNew = told % 2 === 0;
      if (isNew) id = uuidv7(Date.now());
      const facts = {
        id,
        at: new Date().toISOString(),
        subject: `Message ${told}`,
        outcome: isNew ? 'accepted' : 'delivered',
      };
      text += `id: ${told}\nevent: row\ndata: ${JSON.stringify({ ...row, ...facts })}\n\n`;
    }
    for (const stream of streams) stream.write(text);
  }, 20);
  return () => {
    clearInterval(timer);
    return told;
  };
}

/** Notes for each click how long it took until the page had been painted after it, from when the browser had it. */
const noteClicks = `window.clicks = [];
  addEventListener('click', ({ timeStamp }) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => clicks.push(performance.now() - timeStamp);
    port2.postMessage(0);
  }), true)`;

async function memory(page: Page): Promise<string> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  // Once for what nobody holds, and once more for the nodes that it held.
  for (let round = 0; round < 2; round += 1) await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const of = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? 0;
  await session.detach();
  const rows = await page.locator('table.list tbody tr').count();
  return `heap ${(of('JSHeapUsedSize') / 1e6).toFixed(1)} MB, ${of('Nodes')} nodes, ${rows} rows`;
}

/** Seconds of CPU that the processes have used which draw pages: what a loaded machine does not make longer. */
async function drawingSeconds(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.filter(({ type }) => type === 'renderer').reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

function percentile(sorted: readonly number[], share: number): string {
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(0);
}

const gateway = await startReloadable();
const port = Number(gateway.postern.ports['http']);
const server = createServer(forward(port));
await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const browser = await launchBrowser();
try {
  const sending = `http://127.0.0.1:${port}/client/v4/accounts/dev/email/sending`;
  const headers = { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' };
  for (let at = 0; at < 60; at += 1) {
    const body = JSON.stringify({ from: 'shop@example.com', to: 'a@example.net', subject: `Before ${at}`, text: 'x' });
    await fetch(`${sending}/send`, { method: 'POST', headers, body });
  }
  const listed = await fetch(`${sending}/journal?per_page=1`, { headers });
  const [row] = ((await listed.json()) as { readonly result: readonly object[] }).result;
  const { page, open, complaints } = await openConsolePage(browser, origin, { viewport: { width: 1280, height: 800 } });
  await open('/messages');
  await page.locator('.live.on').waitFor();
  if (values.scrolled) await page.evaluate('scrollTo(0, 800)');
  await page.evaluate(noteClicks);
  const end = tellOf(row ?? {});
  const used = await drawingSeconds(browser);
  const begun = Date.now();
  const every = Math.min(60, Math.max(1, seconds / 10));
  for (let told = 0; Date.now() - begun < seconds * 1000; ) {
    await page.waitForTimeout(500);
    // Opening what is closed, and closing it: it changes nothing of what is measured.
    if (!values.scrolled) await page.locator('.more-filters summary').click();
    else
      await page
        .getByRole('button', { name: 'new messages' })
        .hover()
        .then(() => page.mouse.click(5, 400));
    const passed = (Date.now() - begun) / 1000;
    if (passed < told * every) continue;
    process.stdout.write(`${passed.toFixed(0)} s: ${await memory(page)}, load ${loadavg()[0]?.toFixed(1)}\n`);
    told += 1;
  }
  const told = end();
  const passed = (Date.now() - begun) / 1000;
  const share = ((await drawingSeconds(browser)) - used) / passed;
  const clicks = (await page.evaluate<number[]>('clicks')).toSorted((one, other) => one - other);
  process.stdout.write(
    `${told} events in ${passed.toFixed(0)} s; ${clicks.length} clicks, until painted: p50 ${percentile(clicks, 0.5)} ms, p95 ${percentile(clicks, 0.95)} ms, p99 ${percentile(clicks, 0.99)} ms, longest ${percentile(clicks, 1)} ms; the page used ${(share * 100).toFixed(0)} % of a core; ${await memory(page)}; load ${loadavg()[0]?.toFixed(1)}\n`,
  );
  if (complaints.length > 0) process.stdout.write(`complaints: ${complaints.slice(0, 3).join('; ')}\n`);
} finally {
  await browser.close();
  server.closeAllConnections();
  server.close();
  await gateway.postern.cleanUp();
}

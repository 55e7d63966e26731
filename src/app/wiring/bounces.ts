// Connects what comes back: the bounce desk, the reader of reports, the events, and the suppression lists (D40a, D51).

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { BodyBudget, defaultBodyLimit } from '../../base/body-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import { uuidv7 } from '../../base/ids.ts';
import { Maildir } from '../../delivery/capture.ts';
import { createFindMessage } from '../../delivery/feedback/known-messages.ts';
import { createReportReader } from '../../delivery/feedback/report/report-reader.ts';
import { suppressByEvents } from '../../delivery/feedback/suppress-by-events.ts';
import type { SuppressionStore } from '../../delivery/feedback/suppression-store.ts';
import { createTakeReport } from '../../delivery/feedback/take-report.ts';
import { type CountingDesk, createBounceDesk } from '../../doors/bounce/bounce-desk.ts';
import type { EventStore } from '../../spool/events/event-store.ts';
import type { MetricSources } from '../../web/http/metrics.ts';
import { madeOf, type Shared } from './in-force.ts';
import type { Running } from './running.ts';

/** The part of the room for messages under way that reports have beside it. */
const shareOfBodies = 8;

/** Unread messages that are kept; whoever reads them moves or removes them, as mail programs do. */
const mostUnread = 500;

/** Keeps mail to postmaster of the bounce domain in a Maildir (RFC 5321 §4.5.1), and sends none of it on. @param folder absolute */
function createPostmasterMail(
  folder: string,
  clock: Pick<Clock, 'now'>,
): (reversePath: string, message: Buffer) => Promise<string | undefined> {
  const maildir = new Maildir(folder);
  return async (reversePath, message) => {
    const unread = await readdir(join(folder, 'new')).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return [];
      throw error;
    });
    if (unread.length >= mostUnread) return undefined;
    const name = uuidv7(clock.now());
    await maildir.write(name, [Buffer.from(`Return-Path: <${reversePath}>\r\n`), message]);
    return `${name}.eml`;
  };
}

function familiesOf({ taken, refused }: CountingDesk): MetricSources['families'] {
  return [
    {
      kind: 'counter',
      name: 'postern_reports_total',
      help: 'Messages to the bounce listeners, by what became of them',
      label: 'result',
      read: () => taken,
    },
    {
      kind: 'counter',
      name: 'postern_bounce_recipients_refused_total',
      help: 'Recipients that the bounce listeners refused: unknown (no token of ours), expired',
      label: 'reason',
      read: () => refused,
    },
  ];
}

/** Makes the desk, and follows the events that suppress. @param running gets what ends it, behind the spool and the database */
export function openBounces(
  parts: Shared & { readonly events: EventStore; readonly suppressions: SuppressionStore },
  running: Running,
): MetricSources & { readonly desk: CountingDesk } {
  const { live, accounts, database, events, suppressions, group, clock, log } = parts;
  const reader = createReportReader();
  const ended = new AbortController();
  let following = Promise.resolve();
  parts.onDuty(() => {
    if (ended.signal.aborted) return;
    following = suppressByEvents(
      { database, events, suppressions, account: (name) => accounts.find(name), clock, log },
      ended.signal,
    ).catch((err: unknown) => log.error({ err }, 'suppressing has ended'));
  });
  running.stores.push(async () => {
    ended.abort();
    await reader.close();
    await following;
  });
  const find = createFindMessage(events, () => clock.monotonic());
  const desk = createBounceDesk({
    settings: () => live.current.config.bounces,
    addresses: madeOf(live, ({ config, keys }) => ({
      bounceDomain: config.platform.bounceDomain,
      returnPathDomains: new Set(
        config.accounts.flatMap(({ sendingDomains }) =>
          sendingDomains.flatMap(({ returnPathDomain }) => (returnPathDomain === undefined ? [] : [returnPathDomain])),
        ),
      ),
      hmacKey: keys.hmacKey,
      tokenDays: config.bounces.tokenDays,
    })),
    bodies: new BodyBudget(Math.floor(defaultBodyLimit() / shareOfBodies / (group?.count ?? 1))),
    reader,
    keepForPostmaster: createPostmasterMail(join(live.current.config.dataDir, 'postmaster'), clock),
    takeReport: createTakeReport({ find, events }),
    windows: group?.windows,
    clock,
    log,
  });
  return { desk, families: familiesOf(desk) };
}

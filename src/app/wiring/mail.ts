// Connects the parts of the mail path: the doors (SMTP and REST) pass submissions to the pipeline, the pipeline stores them in
// the spool, and delivery empties the spool.

import type { Account } from '../../accounts/account.ts';
import { Limits, type LimitVerdict } from '../../accounts/limits.ts';
import { Counts } from '../../base/counts.ts';
import { ConfigurationError, endProcess, type Unavailable } from '../../base/errors.ts';
import { whenKnown } from '../../base/load/maybe-promise.ts';
import { gatherErrors } from '../../base/log.ts';
import { openSuppressionStore, type SuppressionStore } from '../../delivery/feedback/suppression-store.ts';
import { openShares } from '../../delivery/hop/leased-shares.ts';
import { openStsStore } from '../../delivery/mx/sts-store.ts';
import type { Notifier } from '../../delivery/notify/notifier.ts';
import { transportOf } from '../../delivery/router.ts';
import type { TlsReporter } from '../../delivery/tls-report/reporter.ts';
import { createOutcomeWatch, type OutcomeWatch } from '../../doors/rest/outcome-watch.ts';
import { SmtpDoor } from '../../doors/smtp/smtp-door.ts';
import { createJudgeCopy, type JudgeCopy } from '../../pipeline/judge-copy.ts';
import { createSubmit, type Submit, type Violation } from '../../pipeline/submit.ts';
import { ContentGauge } from '../../spool/journal/content-gauge.ts';
import type { Journal } from '../../spool/journal/journal.ts';
import { ContentReader } from '../../spool/journal/reader/content-reader.ts';
import type { Spool } from '../../spool/spool.ts';
import type { MetricSources } from '../../web/http/metrics.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import { engineTraits } from '../config/settings.ts';
import { openBounces } from './bounces.ts';
import { buildParts, entryLinkFor, keptContent, type Sending } from './build-parts.ts';
import { openSpool } from './engine/open-stores.ts';
import { madeOf, type Shared } from './in-force.ts';
import { openJournal } from './journal/open-journal.ts';
import { createLiveDelivery, type LiveDelivery } from './live/live-delivery.ts';
import { deliveryFamilies, openQueueLog, tellEvents } from './metrics/mail-metrics.ts';
import { spoolMetrics } from './metrics/spool-metrics.ts';
import { createReporting, createTlsReporting, openTlsResults } from './reporting.ts';
import type { Running } from './running.ts';

/** What delivery tells of each message in hand while the database is away, by its texts in the log. */
const errorsOfMessages = [
  'Cannot read a message from the spool',
  'Cannot give a message back to the spool',
  'Cannot look for the other recipients of a message',
];

/** The mail path. It listens only after `door.listen`, and delivers only after `delivery.start`. */
export interface Mail extends MetricSources {
  readonly spool: Spool;
  /** Why no mail is taken: the fault of the first store that what a sender hears depends on; undefined while mail is taken. */
  readonly fault: () => Unavailable | undefined;
  readonly journal: Journal;
  readonly contentReader: ContentReader;
  readonly delivery: LiveDelivery;
  readonly door: SmtpDoor;
  readonly submit: Submit;
  /** Under the settings in force. */
  readonly sending: () => Sending;
  readonly outcomes: OutcomeWatch;
  readonly suppressions: SuppressionStore;
  /** Sends reports to senders after `start`. */
  readonly notifier: Notifier;
  /** Sends reports of TLS after `start`. */
  readonly tlsReporter: TlsReporter;
  /** Whether an account does not send to a recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => boolean | Promise<boolean>;
}

/** @throws Unavailable while no mail is taken */
function checkStores({ fault }: Pick<Mail, 'fault'>): void {
  const unavailable = fault();
  if (unavailable) throw unavailable;
}

/** The violation for an account's limit that is reached (D42a); undefined where none is. */
function rateViolation(account: Account, verdict: LimitVerdict): Violation | undefined {
  if (verdict.allowed) return undefined;
  const limit =
    verdict.code === 'E_RATE_LIMIT_EXCEEDED'
      ? `${account.limits.messagesPerMinute} messages a minute`
      : `${account.limits.recipientsPerDay} recipients a day`;
  return {
    code: verdict.code,
    message: `Account ${account.name} is limited to ${limit}; try again in ${verdict.retryAfterSeconds} s`,
    retryAfterSeconds: verdict.retryAfterSeconds,
  };
}

/** Makes the pipeline, with the limits of accounts before it, and log, metrics and delivery behind it. */
function createPipeline({ live }: Shared, made: Pick<Mail, 'fault' | 'sending'> & { readonly limits: Limits }): Submit {
  const { sending, limits } = made;
  // All of one message is built with the same settings, even if a reload happens meanwhile.
  const pipelineOf = madeOf(live, () =>
    createSubmit({
      ...sending(),
      charge: ({ submitter: { account }, envelope }) =>
        whenKnown(limits.take(account, envelope.recipients.length), (verdict) => rateViolation(account, verdict)),
      refund: ({ submitter, envelope }) => limits.giveBack(submitter.account, envelope.recipients.length),
    }),
  );
  // Checked here as well, so that no message is built and signed in vain.
  return async (submission) => {
    checkStores(made);
    return await pipelineOf()(submission);
  };
}

/** Makes what judges the copies of shadow listeners. Of the spool it gets the events alone. */
function createCopyJudge({ live }: Shared, made: Pick<Mail, 'fault' | 'sending'>): JudgeCopy {
  const judgeOf = madeOf(live, () => {
    const { clock, hostname, sendingDomain, journal, onRefused: tell } = made.sending();
    return createJudgeCopy({ clock, hostname, sendingDomain, journal, tell });
  });
  return async (copy) => {
    checkStores(made);
    await judgeOf()(copy);
  };
}

/** The certificate of a name. @throws ConfigurationError where there is none */
export function certificateOf({ tls }: Keys, host: string): { readonly cert: string; readonly key: string } {
  const found = tls.get(host);
  if (!found) throw new ConfigurationError(`No certificate for ${host}`);
  return { cert: found.certificate, key: found.privateKey };
}

/** Opens the mail path. @param running gets each part as soon as it exists, so that a failed start can close it */
export async function openMail(parts: Shared, running: Running): Promise<Mail> {
  const { live, accounts, bodies, guessing, metrics, group, onDuty, clock, log } = parts;
  const { config } = live.current;
  const limits = await Limits.open(parts.database, clock, parts.told ?? group?.minutes);
  running.stores.push(() => limits.close());
  const suppressions = await openSuppressionStore(parts.database, clock);
  const suppressed: Mail['suppressed'] = (account, recipient) => suppressions.isSuppressed(account.id, recipient);
  let removedFailures = 0;
  /** How often a next hop was given less, by kind and route. */
  const troubles = new Counts();
  const { changes } = parts.database;
  const contentGauge = new ContentGauge(config.journal.maxOctets);
  const spool = await openSpool(config, {
    contentGauge,
    log,
    changes,
    onLost: endProcess,
    onRemoved: ({ messages }) => (removedFailures += messages),
    onCommitted: metrics.committed,
  });
  running.stores.push(() => spool.close());
  // Both, so that what senders hear and /readyz agree: where the one is well again before the other, mail waits for the other.
  const fault = (): Unavailable | undefined => spool.unavailable ?? parts.database.unavailable;
  const tended = await openJournal(config, {
    database: parts.database,
    gauge: contentGauge,
    caughtUp: () => spool.events.caughtUp(),
    clock,
    log,
  });
  running.stores.push(() => tended.close());
  running.askers.push(spool, tended);
  const contentReader = new ContentReader();
  running.stores.push(() => contentReader.close());
  const outcomes = createOutcomeWatch();
  tellEvents(spool, { log, metrics, outcomes });
  const queueLog = openQueueLog(spool.events, log);
  running.stores.push(() => queueLog.stop());
  onDuty(() => queueLog.start());
  const tlsResults = await openTlsResults(parts);
  // One process alone has the whole of each next hop.
  const isAlone = !engineTraits[config.database.engine].isShared && !group;
  const shares = isAlone ? undefined : await openShares(parts.database, { clock, log });
  if (shares) running.stores.push(() => shares.stop());
  const delivery = createLiveDelivery({
    spool,
    ...(shares ? { shares } : {}),
    changes,
    settings: config.delivery,
    clock,
    log: gatherErrors(log, errorsOfMessages),
    mx: {
      stsStore: await openStsStore(parts.database),
      ownDoors: parts.ownDoors,
      onTlsResult: tlsResults.count,
    },
    onTrouble: (route, trouble) => troubles.add(`${trouble}\n${route}`),
  });
  running.delivery = delivery;
  const sending = madeOf(
    live,
    (inForce): Sending => ({
      ...buildParts(inForce.config, inForce.keys, accounts, clock),
      ...{ spool, journal: keptContent(inForce.config.journal), onRefused: spool.events.refuse },
      replacedIds: (account, ids) => spool.replacedIds(account, ids),
      transportOf: transportOf(inForce.config.delivery),
      expireAfterSeconds: inForce.config.delivery.retry.expireAfterSeconds,
      onAccepted: (entry) => delivery.deliverNow(entry),
    }),
  );
  const submit = createPipeline(parts, { fault, sending, limits });
  const bounces = openBounces({ ...parts, events: spool.events, suppressions }, running);
  const door = new SmtpDoor({
    settings: config.smtp,
    accounts,
    submit,
    judgeCopy: createCopyJudge(parts, { fault, sending }),
    log,
    clock,
    tls: (host) => certificateOf(live.current.keys, host),
    bodies,
    guessing,
    suppressed,
    rateLimit: (account, recipients) => {
      checkStores({ fault });
      return whenKnown(limits.ask(account, recipients), (verdict) => rateViolation(account, verdict));
    },
    onRefused: spool.events.refuse,
    entryLink: madeOf(live, ({ config: inForce }) => entryLinkFor(inForce, clock)),
    keepsTranscripts: config.journal.enabled,
    bounces: bounces.desk,
    ...(group ? { sharedConnections: (door) => group.connections(door) } : {}),
  });
  running.door = door;
  const reporting = createReporting({ ...parts, spool, sending, suppressed });
  running.stores.push(() => reporting.notifier.stop());
  const tlsReporting = createTlsReporting({ ...parts, sending }, tlsResults);
  running.stores.push(() => tlsReporting.tlsReporter.stop());
  return {
    spool,
    fault,
    journal: tended.journal,
    contentReader,
    delivery,
    door,
    submit,
    sending,
    outcomes,
    suppressions,
    suppressed,
    notifier: reporting.notifier,
    tlsReporter: tlsReporting.tlsReporter,
    families: [
      ...spoolMetrics(spool, { removedFailures: () => removedFailures, takesMail: () => !fault(), clock }),
      ...[tended, reporting, tlsReporting, queueLog, bounces].flatMap(({ families }) => families),
      ...deliveryFamilies(delivery, door, troubles),
    ],
  };
}

// Connects the mail path: doors pass submissions to the pipeline, which stores them in the spool, which delivery empties.

import type { Account } from '../../accounts/account.ts';
import { Limits, type LimitVerdict } from '../../accounts/limits.ts';
import { Counts } from '../../base/counts.ts';
import { ConfigurationError, endProcess, type Unavailable } from '../../base/errors.ts';
import { whenKnown } from '../../base/load/maybe-promise.ts';
import { gatherErrors } from '../../base/log.ts';
import { openSuppressionStore } from '../../delivery/feedback/suppression-store.ts';
import { openShares } from '../../delivery/hop/leased-shares.ts';
import { openStsStore } from '../../delivery/mx/sts-policy.ts';
import type { TlsResult } from '../../delivery/mx/tls-demand.ts';
import { transportOf } from '../../delivery/router.ts';
import { createOutcomeWatch } from '../../doors/rest/outcome-watch.ts';
import { SmtpDoor, type SmtpDoorParts } from '../../doors/smtp/smtp-door.ts';
import { createJudgeCopy, type JudgeCopy } from '../../pipeline/judge-copy.ts';
import { createSubmit, type Submit, type Violation } from '../../pipeline/submit.ts';
import { ContentGauge } from '../../spool/journal/content-gauge.ts';
import { ContentReader } from '../../spool/journal/reader/content-reader.ts';
import type { Spool } from '../../spool/spool.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import { engineTraits } from '../config/settings.ts';
import { openBounces } from './bounces.ts';
import { buildParts, entryLinkFor, keptContent, type Sending } from './build-parts.ts';
import { openSpool } from './engine/open-stores.ts';
import { madeOf, type Shared } from './in-force.ts';
import { openJournal } from './journal/open-journal.ts';
import { createLiveDelivery, type LiveDelivery } from './live/live-delivery.ts';
import { deliveryFamilies, QueueLog, tellEvents } from './metrics/mail-metrics.ts';
import { spoolMetrics } from './metrics/spool-metrics.ts';
import { createReporting, createTlsReporting, openTlsResults } from './reporting.ts';
import type { Running } from './running.ts';

/** What delivery tells of each message in hand while the database is away, by its texts in the log. */
const errorsOfMessages = [
  'Cannot read a message from the spool',
  'Cannot give a message back to the spool',
  'Cannot look for the other recipients of a message',
];

/** The mail path. It listens only after `door.listen`, delivers only after `delivery.start`, and sends reports after their `start`. */
export type Mail = Awaited<ReturnType<typeof openMail>>;

type Stores = Awaited<ReturnType<typeof openStores>>;

/** Under the settings in force. */
interface UnderSettings extends Pick<Stores, 'fault'> {
  readonly sending: () => Sending;
}

/** @throws Unavailable while no mail is taken */
function checkStores({ fault }: Pick<Stores, 'fault'>): void {
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
function createPipeline({ live }: Shared, made: UnderSettings & { readonly limits: Limits }): Submit {
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
function createCopyJudge({ live }: Shared, made: UnderSettings): JudgeCopy {
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

async function openStores({ live, database, metrics, clock, log }: Shared, running: Running) {
  const { config } = live.current;
  const contentGauge = new ContentGauge(config.journal.maxOctets);
  let removedFailures = 0;
  const spool = await openSpool(config, {
    ...{ contentGauge, log, changes: database.changes, onLost: endProcess, onCommitted: metrics.committed },
    onRemoved: ({ messages }) => (removedFailures += messages),
  });
  running.stores.push(() => spool.close());
  /** Why no mail is taken: the first store at fault of those that senders hear of, so that they and /readyz agree. */
  const fault = (): Unavailable | undefined => spool.unavailable ?? database.unavailable;
  const caughtUp = (): Promise<void> => spool.events.caughtUp();
  const tended = await openJournal(config, { database, gauge: contentGauge, caughtUp, clock, log });
  running.stores.push(() => tended.close());
  running.askers.push(spool, tended);
  const contentReader = new ContentReader();
  running.stores.push(() => contentReader.close());
  const ofSpool = spoolMetrics(spool, { removedFailures: () => removedFailures, takesMail: () => !fault(), clock });
  const families = [...ofSpool, ...tended.families];
  return { spool, fault, journal: tended.journal, contentReader, families };
}

async function openDelivery(
  { live, database, group, ownDoors, clock, log }: Shared,
  given: { readonly spool: Spool; readonly onTlsResult: (result: TlsResult) => void; readonly troubles: Counts },
  running: Running,
): Promise<LiveDelivery> {
  const { config } = live.current;
  const { spool, onTlsResult, troubles } = given;
  // One process alone has the whole of each next hop.
  const isAlone = !engineTraits[config.database.engine].isShared && !group;
  const shares = isAlone ? undefined : await openShares(database, { clock, log });
  if (shares) running.stores.push(() => shares.stop());
  const delivery = createLiveDelivery({
    spool,
    ...(shares ? { shares } : {}),
    changes: database.changes,
    settings: config.delivery,
    clock,
    log: gatherErrors(log, errorsOfMessages),
    mx: { stsStore: await openStsStore(database), ownDoors, onTlsResult },
    onTrouble: (route, trouble) => troubles.add(`${trouble}\n${route}`),
  });
  running.delivery = delivery;
  return delivery;
}

function sendingWith({ live, accounts, clock }: Shared, spool: Spool, delivery: LiveDelivery): () => Sending {
  return madeOf(live, ({ config, keys }) => ({
    ...buildParts(config, keys, accounts, clock),
    ...{ spool, journal: keptContent(config.journal), onRefused: spool.events.refuse },
    replacedIds: (account, ids) => spool.replacedIds(account, ids),
    transportOf: transportOf(config.delivery),
    expireAfterSeconds: config.delivery.retry.expireAfterSeconds,
    onAccepted: (entry) => delivery.deliverNow(entry),
  }));
}

/** Makes the SMTP door. */
function openDoor(
  parts: Shared,
  given: UnderSettings &
    Pick<SmtpDoorParts, 'submit' | 'suppressed' | 'onRefused' | 'bounces'> & { readonly limits: Limits },
): SmtpDoor {
  const { live, accounts, bodies, guessing, group, clock, log } = parts;
  const { config } = live.current;
  const { fault, sending, limits, ...asGiven } = given;
  return new SmtpDoor({
    ...{ accounts, log, clock, bodies, guessing, ...asGiven },
    settings: config.smtp,
    judgeCopy: createCopyJudge(parts, { fault, sending }),
    tls: (host) => certificateOf(live.current.keys, host),
    rateLimit: (account, recipients) => {
      checkStores({ fault });
      return whenKnown(limits.ask(account, recipients), (verdict) => rateViolation(account, verdict));
    },
    entryLink: madeOf(live, ({ config: inForce }) => entryLinkFor(inForce, clock)),
    keepsTranscripts: config.journal.enabled,
    ...(group ? { sharedConnections: (door) => group.connections(door) } : {}),
  });
}

/** Opens the mail path. @param running gets each part as soon as it exists, so that a failed start can close it */
export async function openMail(parts: Shared, running: Running) {
  const { metrics, group, onDuty, clock, log } = parts;
  const limits = await Limits.open(parts.database, clock, parts.told ?? group?.minutes);
  running.stores.push(() => limits.close());
  const suppressions = await openSuppressionStore(parts.database, clock);
  /** Whether an account does not send to a recipient (D51). */
  const suppressed = (account: Account, recipient: string) => suppressions.isSuppressed(account.id, recipient);
  const { families: ofStores, ...stores } = await openStores(parts, running);
  const { spool, fault } = stores;
  const outcomes = createOutcomeWatch();
  tellEvents(spool, { log, metrics, outcomes });
  const queueLog = new QueueLog(spool.events, log);
  running.stores.push(() => queueLog.stop());
  onDuty(() => queueLog.start());
  const tlsResults = await openTlsResults(parts);
  const troubles = new Counts();
  const delivery = await openDelivery(parts, { spool, onTlsResult: tlsResults.count, troubles }, running);
  const sending = sendingWith(parts, spool, delivery);
  const submit = createPipeline(parts, { fault, sending, limits });
  const bounces = openBounces({ ...parts, events: spool.events, suppressions }, running);
  const door = openDoor(parts, {
    fault,
    sending,
    submit,
    limits,
    suppressed,
    onRefused: spool.events.refuse,
    bounces: bounces.desk,
  });
  running.door = door;
  const reporting = createReporting({ ...parts, spool, sending, suppressed });
  const { notifier } = reporting;
  running.stores.push(() => notifier.stop());
  const tlsReporting = createTlsReporting({ ...parts, sending }, tlsResults);
  const { tlsReporter } = tlsReporting;
  running.stores.push(() => tlsReporter.stop());
  const families = [
    ...ofStores,
    ...[reporting, tlsReporting, queueLog, bounces].flatMap((one) => one.families),
    ...deliveryFamilies(delivery, door, troubles),
  ];
  const serving = { delivery, door, submit, sending, outcomes, suppressions, suppressed, notifier, tlsReporter };
  return { ...stores, ...serving, families };
}

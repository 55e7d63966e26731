// The answers as the pages read them: types of the schemas of docs/openapi.json, all that a browser has of the rooms.

import type { Static } from 'typebox';
import type { failures } from '../../../admin/console/failure-endpoints.ts';
import type { overview } from '../../../admin/console/overview-endpoints.ts';
import type { settings } from '../../../admin/console/settings-endpoint.ts';
import type { sendingDomain } from '../../../admin/domain-endpoints.ts';
import type { refusalGroup } from '../../../admin/journal/refusal-endpoints.ts';
import type * as journal from '../../../admin/journal/schemas.ts';
import type { wouldPass } from '../../../admin/journal/would-pass-endpoint.ts';
import type * as queue from '../../../admin/queue/queue-schemas.ts';
import type { suppression } from '../../../admin/suppression-endpoints.ts';
import type { madeToken, token } from '../../../admin/token-endpoints.ts';
import type { delivery, madeWebhook, webhook } from '../../../admin/webhooks/webhook-endpoints.ts';

/** A row of the journal. */
export type JournalRow = Static<typeof journal.journalRow>;

/** An entry of the journal. */
export type JournalEntry = Static<typeof journal.journalEntry>;

/** What became of one recipient. */
export type RecipientHistory = JournalEntry['recipient_states'][number];

/** An event of a recipient or a message. */
export type MailEvent = RecipientHistory['history'][number];

/** What became of one header field, and what would cure it. That of a message that was only tried may say null for no reference. */
export type FieldVerdict = Omit<JournalEntry['verdicts'][number], 'reference'> & { readonly reference?: string | null };

/** What would cure a refusal. */
export type Cure = Static<typeof journal.cure>;

/** A reason against a message as a whole. One of a message that was only tried has no cure. */
export type MessageFault = Pick<JournalEntry['reasons'][number], 'code' | 'message' | 'field'> & {
  readonly cure?: Cure;
};

/** A message as mail programs would show it. */
export type Preview = Static<typeof journal.previewAnswer>;

/** One side of a preview, where it can be taken apart. */
export type PreviewPart = Exclude<Preview['sent'], { unreadable: string } | null>;

/** What our verification says of a DKIM signature. */
export type DkimVerdict = Static<typeof journal.signatureVerdict>;

/** Refusals that have the same cause. */
export type RefusalGroup = Static<typeof refusalGroup>;

/** A change of the configuration file. */
export type FileChange = NonNullable<RefusalGroup['change']>;

/** What would become of some messages under another configuration. */
export type WouldPass = Static<typeof wouldPass>;

/** What changes for one mailer. */
export type MailerVerdicts = WouldPass['mailers'][number];

/** The figures of the overview. */
export type Overview = Static<typeof overview>;

/** The failures of an account's zones. */
export type EdgeFailures = Static<typeof failures>;

/** The configuration in force. */
export type Settings = Static<typeof settings>;

/** Recipients that wait for the same destination. */
export type QueueGroup = Static<typeof queue.group>;

/** A message of the queue, with the first of its recipients that were asked for. */
export type QueuedMessage = Static<typeof queue.message>;

/** Why a recipient is held. Who held it and why is told to those alone who may release it. */
export type QueueHold = NonNullable<QueuedMessage['hold']>;

/** What an action on the queue did. */
export type QueueDone = Static<typeof queue.done>;

/** An address that gets no mail. */
export type Suppression = Static<typeof suppression>;

/** A token, without itself. */
export type Token = Static<typeof token>;

/** A token that was just made. */
export type MadeToken = Static<typeof madeToken>;

/** A domain that an account may send from. */
export type SendingDomain = Static<typeof sendingDomain>;

/** A DNS record of a sending domain. */
export type DnsRecord = SendingDomain['records'][number];

/** A webhook. */
export type Webhook = Static<typeof webhook>;

/** A webhook with its secret, which was just made. */
export type MadeWebhook = Static<typeof madeWebhook>;

/** A request to a webhook. */
export type WebhookDelivery = Static<typeof delivery>;

// The answers of the HTTP interface as far as the pages read them. docs/openapi.json describes them whole, and a test holds these
// against it.

/** A row of the journal. */
export interface JournalRow {
  readonly id: string;
  readonly at: string;
  readonly account: string;
  readonly credential?: string | null;
  readonly outcome: 'accepted' | 'delivered' | 'deferred' | 'failed' | 'dropped' | 'refused';
  readonly via?: string | null;
  readonly client?: string | null;
  readonly helo?: string | null;
  readonly mailer?: string | null;
  readonly sender?: string | null;
  readonly recipients: readonly string[];
  readonly recipient_count: number;
  readonly subject?: string | null;
  readonly size?: number | null;
  readonly codes: readonly string[];
  readonly fields: readonly string[];
  readonly message_id?: string | null;
  /** A copy that came to a shadow listener; `outcome` says what would have become of it. */
  readonly shadow?: boolean;
  /** What the database has of it cannot be read. */
  readonly damaged?: boolean;
}

/** What became of one header field, and what would cure it. */
export interface FieldVerdict {
  readonly name: string;
  readonly value?: string | null;
  readonly verdict: 'lifted' | 'read' | 'kept' | 'replaced' | 'stripped' | 'refused';
  /** Postern wrote it; the client did not send it. */
  readonly added?: boolean;
  readonly code?: string | null;
  readonly rule?: string | null;
  readonly reference?: string | null;
  readonly message?: string | null;
  readonly cure?: Cure | null;
}

/** What would cure a refusal. */
export interface Cure {
  readonly kind: 'config' | 'program';
  readonly text: string;
  readonly yaml?: string | null;
}

/** A change of the configuration file. */
export interface FileChange {
  readonly file: string;
  readonly line: number;
  /** A unified diff. */
  readonly diff: string;
}

/** An event of a recipient or a message. */
export interface MailEvent {
  readonly id?: string;
  readonly kind: string;
  readonly at: string;
  readonly reply?: { readonly code: number; readonly enhanced?: string; readonly text?: string };
  readonly [member: string]: unknown;
}

/** A reason against a message as a whole. */
export interface MessageFault {
  readonly code?: string | null;
  readonly message: string;
  readonly field?: string | null;
  readonly cure?: Cure | null;
}

/** An entry of the journal. */
export interface JournalEntry extends JournalRow {
  readonly verdicts?: readonly FieldVerdict[];
  /** Why it was refused, also for what is about no header. */
  readonly reasons?: readonly MessageFault[];
  readonly reason_count?: number;
  readonly stage?: string | null;
  readonly reply?: { readonly code: number; readonly enhanced?: string } | null;
  readonly dialogue?: readonly {
    readonly from: 'client' | 'server' | 'note';
    readonly line: string;
    readonly at_ms?: number;
  }[];
  readonly timings?: readonly { readonly stage: string; readonly ms: number }[];
  readonly tls?: { readonly version: string; readonly cipher: string } | null;
  readonly content?: 'none' | 'headers' | 'full';
  readonly content_note?: string | null;
  readonly recipient_states?: readonly RecipientHistory[];
  readonly links?: Readonly<Partial<Record<'received' | 'sent' | 'preview' | 'dkim' | 'resend' | 'message', string>>>;
}

/** What became of one recipient. */
export interface RecipientHistory {
  readonly address: string;
  readonly state: string;
  readonly history: readonly MailEvent[];
}

/** One side of a preview. */
export interface PreviewPart {
  readonly text?: string | null;
  readonly html?: string | null;
  readonly attachments?: readonly { readonly filename?: string | null; readonly type: string; readonly size: number }[];
  readonly truncated?: boolean;
  /** False where the journal has its header section alone. */
  readonly body_kept?: boolean;
  /** Why it cannot be shown. */
  readonly unreadable?: string;
}

/** A message as mail programs would show it. */
export interface Preview {
  readonly received?: PreviewPart | null;
  readonly sent?: PreviewPart | null;
}

/** What our verification says of a DKIM signature. */
export interface DkimVerdict {
  readonly domain: string;
  readonly selector: string;
  readonly algorithm?: string | null;
  readonly result: string;
  readonly reason?: string | null;
}

/** Refusals that have the same cause. */
export interface RefusalGroup {
  readonly account?: string;
  readonly credential?: string | null;
  readonly mailer?: string | null;
  readonly field?: string | null;
  readonly code: string;
  readonly message?: string | null;
  readonly count: number;
  /** In each of 24 equal parts of the time, the oldest first. */
  readonly times: readonly number[];
  readonly first_at: string | null;
  readonly last_at: string | null;
  /** The configuration in force has the cure already. */
  readonly cured?: boolean;
  readonly example?: string | null;
  readonly cure?: Cure | null;
  /** For the operator: the change of the configuration file that brings in the lines of the cure. */
  readonly change?: FileChange;
}

/** What would become of some messages under another configuration. */
export interface ChangedVerdicts {
  readonly refused: number;
  readonly would_pass: number;
  readonly accepted: number;
  readonly would_not: number;
}

/** The same by mailer, those of which something changes. */
export interface WouldPass extends ChangedVerdicts {
  readonly not_kept: number;
  /** There are more messages than were judged. */
  readonly cut: boolean;
  readonly mailers: readonly MailerVerdicts[];
}

/** What changes for one mailer. */
export interface MailerVerdicts extends ChangedVerdicts {
  readonly account: string;
  readonly credential: string;
  readonly mailer: string;
  /** Ids, each with the codes for which it would be refused. */
  readonly examples: readonly string[];
}

/** The figures of the overview. */
export interface Overview {
  /** One item a minute or a longer step, the oldest first. */
  readonly series: readonly (OverviewCounts & {
    readonly at: string;
    /** Recipients that waited, and for how long the oldest message had; null where nobody looked. */
    readonly queued: number | null;
    readonly oldest_seconds: number | null;
  })[];
  readonly totals: OverviewCounts;
  readonly queue: {
    readonly messages: number;
    readonly recipients: number;
    readonly failed: number;
    readonly oldest_at: string | null;
  };
  readonly reasons: readonly { readonly code: string; readonly field: string | null; readonly count: number }[];
  readonly routes: readonly {
    readonly name: string;
    readonly delivered: number;
    readonly deferred: number;
    readonly failed: number;
    readonly connections: number;
    readonly state: string;
  }[];
  /** Minutes of one item of `series`. */
  readonly step_minutes: number;
}

/** What happened in a time. */
export interface OverviewCounts {
  readonly accepted: number;
  readonly refused: number;
  readonly delivered: number;
  readonly deferred: number;
  readonly failed: number;
  /** From acceptance to the next hop. */
  readonly latency_p50_ms: number | null;
  readonly latency_p99_ms: number | null;
}

/** Recipients that wait for the same destination. */
export interface QueueGroup {
  readonly account: string;
  /** Null where all domains of the route wait together. */
  readonly destination: string | null;
  readonly route: string | null;
  readonly depth: number;
  readonly held: number;
  /** The rule that holds all of them and what comes later. */
  readonly hold: QueueHold | null;
  readonly oldest_at: string | null;
  readonly state: string | null;
  readonly next_at: string | null;
  readonly last_reply: string | null;
}

/** A message of the queue, with the first of its recipients that were asked for. */
export interface QueuedMessage {
  readonly id: string;
  readonly account: string;
  readonly sender: string;
  readonly recipient: string;
  readonly recipient_count: number;
  readonly destination: string;
  readonly route: string;
  readonly state: string;
  /** How many of the recipients are in each state. */
  readonly states?: Readonly<Record<string, number>>;
  readonly attempts: number;
  readonly accepted_at: string;
  readonly next_at: string | null;
  readonly last_reply: string | null;
  readonly hold: QueueHold | null;
}

/** Why a recipient is held. Who held it and why is told to those alone who may release it. */
export interface QueueHold {
  readonly kind: 'message' | 'account' | 'destination' | 'route' | 'line';
  readonly since: string;
  readonly by: string | null;
  readonly why: string | null;
  readonly releasable: boolean;
}

/** What an action on the queue did. */
export interface QueueDone {
  readonly done: number;
  readonly recipients: number;
  /** A rule was made or lifted, which is about what comes later, too. */
  readonly rule: boolean;
  readonly skipped: number;
  /** Where a selection goes on. */
  readonly next: string | null;
}

/** An address that gets no mail. */
export interface Suppression {
  readonly id: string;
  readonly address: string;
  readonly reason: string;
  readonly note?: string | null;
  readonly created_at: string;
  readonly expires_at?: string | null;
}

/** A token, without itself. */
export interface Token {
  readonly id: string;
  readonly credential: string;
  readonly last_four: string;
  readonly label: string;
  readonly scopes: readonly string[];
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly live: boolean;
  /** Only in the answer that makes it. */
  readonly token?: string;
}

/** A DNS record of a sending domain. */
export interface DnsRecord {
  readonly purpose: string;
  readonly type: string;
  readonly name: string;
  readonly value: string;
  readonly zone: string;
  readonly published_by: string;
  readonly remark?: string;
  readonly check?: {
    readonly state: 'ok' | 'missing' | 'different' | 'error';
    readonly found: readonly string[];
    readonly detail?: string;
  };
}

/** A domain that an account may send from. */
export interface SendingDomain {
  readonly name: string;
  readonly subdomains: boolean;
  readonly return_path_domain: string;
  /** When DNS was asked last; absent: it was not. */
  readonly checked_at?: string;
  readonly records: readonly DnsRecord[];
}

/** A webhook. */
export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly kinds: readonly string[];
  readonly note: string;
  readonly source: 'api' | 'file';
  readonly enabled: boolean;
  readonly disabled_reason: string | null;
  readonly failures: number;
  readonly created_at: string;
  readonly replaying: boolean;
  /** Only in the answer that makes it. */
  readonly secret?: string;
}

/** A request to a webhook. */
export interface WebhookDelivery {
  readonly id: string;
  readonly event: string;
  readonly kind: string;
  readonly attempt: number;
  readonly at: string;
  readonly duration_ms: number;
  readonly result: string;
  readonly status: number | null;
  readonly error: string | null;
}

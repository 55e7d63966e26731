// The SMTP door: every listener of the configuration, their sessions, deadlines, counts and the orderly end (D40-D42,
// D97). It makes Submissions and prints answers; it knows no header rule, no key and no spool.

import type { Account } from '../../accounts/account.ts';
import { Guessing } from '../../accounts/guessing.ts';
import { BodyBudget, defaultBodyLimit } from '../../base/body-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { ConfigurationError } from '../../base/errors.ts';
import type { MaybePromise } from '../../base/load/maybe-promise.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import type { SharedConnections } from '../../base/process-group.ts';
import { MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';
import type { JudgeCopy } from '../../pipeline/judge-copy.ts';
import type { Submit, Violation } from '../../pipeline/submit.ts';
import type { Refuse } from '../../spool/events/refusal.ts';
import type { EntryLink } from '../../spool/journal/journal-row.ts';
import { ConnectionCounter } from './connection-counter.ts';
import type { DoorAccounts } from './dialogue-context.ts';
import { createMessageIntake, createShadowIntake, type IntakeContext } from './message-intake.ts';
import { compareListeners, listenSetting, type SmtpListener, type SmtpSettings } from './settings.ts';
import type { TlsCredentials } from './smtp-library.ts';
import { SmtpListenerServer } from './smtp-listener.ts';
import type { BounceDesk, SessionContext, SmtpSession } from './smtp-session.ts';

/** What the door is built from. */
export interface SmtpDoorParts {
  readonly settings: SmtpSettings;
  readonly accounts: DoorAccounts;
  readonly submit: Submit;
  /** Judges what comes to shadow listeners; absent: there may be none. */
  readonly judgeCopy?: JudgeCopy;
  /** The room in memory for messages under way, shared by all doors; absent: the door has its own. */
  readonly bodies?: BodyBudget;
  /** The count of wrong tokens, shared by all doors; absent: the door has its own. */
  readonly guessing?: Guessing;
  readonly log: Logger;
  readonly clock: Clock;
  /** Gives certificate and key for a name; called once, for `settings.hostname`, if a listener has TLS. */
  readonly tls: (hostname: string) => TlsCredentials;
  /** Tells whether the account's suppression list holds a recipient (D51); absent: nobody is suppressed. */
  readonly suppressed?: (account: Account, recipient: string) => MaybePromise<boolean>;
  /** Called at DATA: a violation when the account is already over its rates. The pipeline charges the message later (D41). */
  readonly rateLimit?: (account: Account, recipients: number) => MaybePromise<Violation | undefined>;
  /** Called for each sender, recipient and message refused before the pipeline has seen it. */
  readonly onRefused?: Refuse;
  /** Where entries of the journal can be looked at now; absent, or where it gives nothing: refusals have no link. */
  readonly entryLink?: () => EntryLink | undefined;
  /** Whether what is said is kept for the journal; absent: yes. */
  readonly keepsTranscripts?: boolean;
  /** Counts connections over all processes; absent: there is one. */
  readonly sharedConnections?: (door: 'smtp' | 'bounce') => SharedConnections;
  /** What bounce listeners do; absent: there may be none. */
  readonly bounces?: BounceDesk;
}

/** Where a listener is bound. */
export type BoundListener = Pick<SmtpListener, 'name' | 'host' | 'port'>;

/** Other settings of the door, and what is needed to judge them. */
export interface SmtpDoorNext extends Pick<SmtpDoorParts, 'settings' | 'tls'> {
  readonly accounts: Pick<DoorAccounts, 'submitter'>;
}

/** How often deadlines are checked, in milliseconds; a deadline can be noticed that much late. */
const sweepMs = 200;
/** Once this many octets came without an empty line, the reader finds the header section too large, whatever follows. */
const headerBytes = MAX_HEADER_SECTION_BYTES + 4;

interface Served {
  listener: SmtpListener;
  readonly server: SmtpListenerServer;
  bound: BoundListener;
  /** The sessions that use the listener's current settings. */
  sessions: Set<SmtpSession>;
}

/** The door. */
export class SmtpDoor extends Part<SmtpDoorParts> {
  #settings = this.parts.settings;
  readonly #counter = new ConnectionCounter(() => this.#settings.limits, this.parts.sharedConnections?.('smtp'));
  /** Of bounce listeners, so that whoever floods them takes no connection from submission. */
  readonly #bounceCounter = new ConnectionCounter(
    () => this.parts.bounces?.limits() ?? this.#settings.limits,
    this.parts.sharedConnections?.('bounce'),
  );
  readonly #bodies = this.parts.bodies ?? new BodyBudget(defaultBodyLimit());
  readonly #guessing = this.parts.guessing ?? new Guessing({});
  readonly #sessions = new Set<SmtpSession>();
  #authFailures = 0;
  #served: readonly Served[] = [];
  #sweep: NodeJS.Timeout | undefined;

  /** Binds nothing before `listen`. @throws ConfigurationError for a listener that cannot work */
  constructor(parts: SmtpDoorParts) {
    super(parts);
    for (const listener of parts.settings.listeners) checkListener(listener, parts.accounts, parts.bounces);
  }

  /** Makes the context of a listener's sessions. Limits and the server's name are always those in force at the moment. */
  #context(listener: SmtpListener, own: Set<SmtpSession>): SessionContext {
    const { accounts, log, clock, suppressed, rateLimit, onRefused, entryLink: link } = this.parts;
    const settings = (): SmtpSettings => this.#settings;
    const desk = listener.role === 'bounce' ? this.parts.bounces : undefined;
    const context = {
      get hostname() {
        return settings().hostname;
      },
      get limits() {
        return desk ? { ...settings().limits, ...desk.limits() } : settings().limits;
      },
      get entryLink() {
        return listener.role === 'bounce' ? undefined : link?.();
      },
      listener,
      commands: desk?.commands,
      keepsTranscripts: this.parts.keepsTranscripts ?? true,
      accounts,
      log,
      clock,
      headerBytes,
      suppressed: suppressed ?? (() => false),
      rateLimit: rateLimit ?? (() => undefined),
      bodies: desk?.bodies ?? this.#bodies,
      guessing: this.#guessing,
      onAuthFailure: () => void (this.#authFailures += 1),
      onRefused: (refusal: Parameters<Refuse>[0]) =>
        onRefused?.(listener.shadow ? { ...refusal, shadow: true } : refusal),
      onOpen: (session: SmtpSession) => {
        this.#sessions.add(session);
        own.add(session);
      },
      onGone: (session: SmtpSession) => {
        this.#sessions.delete(session);
        own.delete(session);
      },
    };
    const take = desk?.take ?? this.#intake(listener, context);
    // A spread would read the limits once and keep them; Object.assign into the context does not.
    return Object.assign(context, { take });
  }

  /** What takes a listener's messages: copies go nowhere but to whoever judges them (D4f). */
  #intake(listener: SmtpListener, context: IntakeContext): SessionContext['take'] {
    const { submit, judgeCopy } = this.parts;
    if (!listener.shadow) return createMessageIntake(context, submit);
    if (!judgeCopy) throw new ConfigurationError(`SMTP listener "${listener.name}": shadow is not available here`);
    return createShadowIntake(context, judgeCopy);
  }

  async #open(listener: SmtpListener, tls: TlsCredentials | undefined): Promise<Served> {
    const sessions = new Set<SmtpSession>();
    const counter = listener.role === 'bounce' ? this.#bounceCounter : this.#counter;
    const context = this.#context(listener, sessions);
    const server = new SmtpListenerServer(context, counter, listener.tls === 'none' ? undefined : tls);
    const { address, port } = await server.open(listenSetting(listener, this.#settings.listeners));
    return { listener, server, bound: { name: listener.name, host: address, port }, sessions };
  }

  async #openAll(listeners: readonly SmtpListener[], tls: TlsCredentials | undefined): Promise<readonly Served[]> {
    const opened: Served[] = [];
    try {
      for (const listener of listeners) opened.push(await this.#open(listener, tls));
      return opened;
    } catch (error) {
      await Promise.all(opened.map((served) => this.#retire(served, 0)));
      throw error;
    }
  }

  /** Binds every listener. @throws ConfigurationError naming the listener that cannot be bound; none is left bound then */
  async listen(): Promise<readonly BoundListener[]> {
    const { listeners, hostname } = this.#settings;
    this.#served = await this.#openAll(listeners, usesTls(listeners) ? this.parts.tls(hostname) : undefined);
    this.#sweep = setInterval(() => this.#checkDeadlines(), sweepMs);
    return this.#served.map(({ bound }) => bound);
  }

  /**
   * Prepares other settings: new listeners are bound and wait. One of the two functions that it gives is called, once.
   * @throws ConfigurationError for a listener that cannot work or be bound
   */
  async prepare(next: SmtpDoorNext) {
    const { settings, accounts } = next;
    for (const listener of settings.listeners) checkListener(listener, accounts, this.parts.bounces);
    const changes = compareListeners(this.#served, settings.listeners);
    const tls = usesTls(settings.listeners) ? next.tls(settings.hostname) : undefined;
    const opened = await this.#openAll(changes.added, tls);
    return {
      /**
       * Applies the settings at once. Sessions of unchanged listeners go on, under the new limits. Sessions of listeners that
       * are removed or have other settings get 421 once their message in flight is done with.
       * @param drainMs milliseconds after which the latter sessions are cut @returns where the door listens now
       */
      commit: (drainMs: number): readonly BoundListener[] => {
        this.#settings = settings;
        for (const { served, next: listener, isChanged } of changes.kept) {
          if (isChanged) this.#change(served, listener, drainMs);
        }
        const kept = changes.kept.map(({ served }) => served);
        this.#served = [...kept, ...opened];
        if (tls) this.showCertificate(tls);
        for (const served of changes.removed) void this.#retire(served, drainMs);
        return this.#served.map(({ bound }) => bound);
      },
      abort: async (): Promise<void> => {
        await Promise.all(opened.map((served) => this.#retire(served, 0)));
      },
    };
  }

  /** Shows another certificate in every TLS handshake from now on. @throws Error where it does not fit its key */
  showCertificate(tls: TlsCredentials): void {
    for (const { listener, server } of this.#served) if (listener.tls !== 'none') server.showCertificate(tls);
  }

  /** Gives new sessions other settings; earlier sessions are ended, because they began with other rights. */
  #change(served: Served, listener: SmtpListener, drainMs: number): void {
    const before = served.sessions;
    served.listener = listener;
    served.bound = { ...served.bound, name: listener.name };
    served.sessions = new Set();
    served.server.follow(this.#context(listener, served.sessions));
    endSessions(before, drainMs);
  }

  /** Takes a listener away. Resolves once its last connection has gone. */
  async #retire({ server, sessions }: Served, drainMs: number): Promise<void> {
    const gone = server.shut();
    endSessions(sessions, drainMs);
    await gone;
  }

  #checkDeadlines(): void {
    const now = this.parts.clock.monotonic();
    for (const session of this.#sessions) session.checkDeadline(now);
    for (const { server } of this.#served) server.checkDeadlines(now);
  }

  /** Lets messages in flight finish, answers everyone else 421 4.3.2, and cuts what is left after `withinMs` milliseconds. */
  async drain(withinMs: number): Promise<void> {
    const gone = this.#served.map(({ server }) => server.shut());
    const cut = endSessions(this.#sessions, withinMs);
    await Promise.all(gone);
    await Promise.all([this.#counter.empty(), this.#bounceCounter.empty()]);
    clearTimeout(cut);
    clearInterval(this.#sweep);
  }

  /** Connections open now, with and without a session, and failed AUTH commands since the start. */
  counts(): { readonly connections: number; readonly authFailures: number } {
    return { connections: this.#counter.open + this.#bounceCounter.open, authFailures: this.#authFailures };
  }
}

function usesTls(listeners: readonly SmtpListener[]): boolean {
  return listeners.some(({ tls }) => tls !== 'none');
}

/** Ends sessions once their message in flight is done with; what is left after this many milliseconds is cut. */
function endSessions(sessions: ReadonlySet<SmtpSession>, withinMs: number): NodeJS.Timeout {
  for (const session of sessions) session.drain();
  const cut = setTimeout(() => {
    for (const session of sessions) session.destroy();
  }, withinMs);
  return cut.unref();
}

function checkListener(listener: SmtpListener, accounts: Pick<DoorAccounts, 'submitter'>, bounces?: BounceDesk): void {
  const where = `SMTP listener "${listener.name}"`;
  if (listener.role === 'bounce' && !bounces) {
    throw new ConfigurationError(`${where}: role "bounce" is not available here, set enabled: false`);
  }
  const { credential } = listener;
  if ((credential === undefined) !== (listener.allowFrom.length === 0)) {
    throw new ConfigurationError(`${where}: credential and allowFrom go together, want both or neither`);
  }
  if (!credential) return;
  const submitter = accounts.submitter(credential.account, credential.name);
  if (!submitter) {
    throw new ConfigurationError(`${where}: there is no credential "${credential.account}/${credential.name}"`);
  }
  if (!submitter.credential.scopes.has('email:send')) {
    throw new ConfigurationError(
      `${where}: credential "${credential.account}/${credential.name}" lacks the scope email:send`,
    );
  }
}

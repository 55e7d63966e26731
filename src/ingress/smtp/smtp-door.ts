// The SMTP door: every listener of the configuration, their sessions, deadlines, counts and the orderly end (D40-D42,
// D97). It makes Submissions and prints answers; it knows no header rule, no key and no spool.

import type { Account } from '../../accounts/account.ts';
import { createGuessing, type Guessing } from '../../accounts/guessing.ts';
import { type BodyBudget, createBodyBudget, defaultBodyLimit } from '../../base/body-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { ConfigurationError } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { Refuse } from '../../events/refusal.ts';
import { MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';
import type { Submit, Violation } from '../../submit.ts';
import { type ConnectionCounter, createConnectionCounter } from './connection-counter.ts';
import type { DoorAccounts } from './dialogue-context.ts';
import type { MaybePromise } from './maybe-promise.ts';
import { createMessageIntake } from './message-intake.ts';
import type { SmtpListener, SmtpSettings } from './settings.ts';
import type { TlsCredentials } from './smtp-library.ts';
import { SmtpListenerServer } from './smtp-listener.ts';
import type { SessionContext, SmtpSession } from './smtp-session.ts';

/** What the door is built from. */
export interface SmtpDoorParts {
  readonly settings: SmtpSettings;
  readonly accounts: DoorAccounts;
  readonly submit: Submit;
  /** The room in memory for messages under way, of all doors; absent: one of its own. */
  readonly bodies?: BodyBudget;
  /** The count of wrong tokens of all doors; absent: one of its own. */
  readonly guessing?: Guessing;
  readonly log: Logger;
  readonly clock: Clock;
  /** Certificate and key for a name; asked once, for `settings.hostname`, if a listener has TLS. */
  readonly tls: (hostname: string) => TlsCredentials;
  /** Tells whether the account's suppression list holds a recipient (D51); nobody is suppressed without it. */
  readonly suppressed?: (account: Account, recipient: string) => MaybePromise<boolean>;
  /** Asked at DATA: a violation when the account is over its rates already. The pipeline charges a message (D41). */
  readonly rateLimit?: (account: Account, recipients: number) => MaybePromise<Violation | undefined>;
  /** Is told of each sender, recipient and message refused before the pipeline has seen it. */
  readonly onRefused?: Refuse;
}

/** Where a listener is bound. */
export interface BoundListener {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** Counts since the start, and connections now. */
export interface SmtpDoorCounts {
  /** Open now, sessions and those not yet sessions. */
  readonly connections: number;
  readonly sessions: number;
  readonly connectionsRefused: number;
  readonly authFailures: number;
  readonly messagesAccepted: number;
  readonly messagesRefused: number;
  readonly messagesFailed: number;
}

/** The door. */
export interface SmtpDoor {
  /**
   * Binds every listener.
   * @throws ConfigurationError naming the listener that cannot be bound; none is left bound then
   */
  listen(): Promise<readonly BoundListener[]>;
  /**
   * Stops accepting, lets messages in flight finish, answers everyone else 421 4.3.2, and cuts what is left.
   * @param withinMs milliseconds after which connections are cut
   */
  drain(withinMs: number): Promise<void>;
  counts(): SmtpDoorCounts;
}

/** How often deadlines are looked at; they may be missed by so much. */
const sweepMs = 200;
/** Without an empty line in so many octets the reader finds the header section too large, whatever follows. */
const headerBytes = MAX_HEADER_SECTION_BYTES + 4;

/**
 * Builds the door.
 * @throws ConfigurationError for a listener that cannot work
 */
export function createSmtpDoor(parts: SmtpDoorParts): SmtpDoor {
  for (const listener of parts.settings.listeners) checkListener(listener, parts.accounts);
  return new Door(parts);
}

class Door implements SmtpDoor {
  readonly #parts: SmtpDoorParts;
  readonly #counter: ConnectionCounter;
  readonly #bodies: BodyBudget;
  readonly #guessing: Guessing;
  readonly #servers: readonly { readonly name: string; readonly server: SmtpListenerServer }[];
  readonly #sessions = new Set<SmtpSession>();
  readonly #messages = { accepted: 0, refused: 0, failed: 0 };
  readonly #seen = { sessions: 0, connectionsRefused: 0, authFailures: 0 };
  #sweep: NodeJS.Timeout | undefined;

  constructor(parts: SmtpDoorParts) {
    const { hostname, limits, listeners } = parts.settings;
    this.#parts = parts;
    this.#counter = createConnectionCounter(limits);
    this.#bodies = parts.bodies ?? createBodyBudget(defaultBodyLimit());
    this.#guessing = parts.guessing ?? createGuessing();
    const tls = listeners.some((listener) => listener.tls !== 'none') ? parts.tls(hostname) : undefined;
    this.#servers = listeners.map((listener) => ({ name: listener.name, server: this.#build(listener, tls) }));
  }

  #build(listener: SmtpListener, tls: TlsCredentials | undefined): SmtpListenerServer {
    const context = this.#context(listener);
    const take = createMessageIntake({ context, submit: this.#parts.submit, counts: this.#messages });
    return new SmtpListenerServer({
      context: { ...context, take },
      tls: listener.tls === 'none' ? undefined : tls,
      counter: this.#counter,
      onRefused: () => {
        this.#seen.connectionsRefused += 1;
      },
    });
  }

  #context(listener: SmtpListener): Omit<SessionContext, 'take'> {
    const { settings, accounts, log, clock, suppressed, rateLimit, onRefused } = this.#parts;
    return {
      hostname: settings.hostname,
      listener,
      limits: settings.limits,
      accounts,
      log,
      clock,
      headerBytes,
      suppressed: suppressed ?? (() => false),
      rateLimit: rateLimit ?? (() => undefined),
      bodies: this.#bodies,
      guessing: this.#guessing,
      onAuthFailure: () => {
        this.#seen.authFailures += 1;
      },
      onRefused: (refusal) => {
        if (refusal.stage === 'message' && refusal.violations.length > 0) this.#messages.refused += 1;
        onRefused?.(refusal);
      },
      onOpen: (session) => {
        this.#seen.sessions += 1;
        this.#sessions.add(session);
      },
      onGone: (session) => {
        this.#sessions.delete(session);
      },
    };
  }

  async listen(): Promise<readonly BoundListener[]> {
    const bound: BoundListener[] = [];
    try {
      for (const { name, server } of this.#servers) {
        const { address, port } = await server.open();
        bound.push({ name, host: address, port });
      }
    } catch (error) {
      await this.drain(0);
      throw error;
    }
    this.#sweep = setInterval(() => this.#checkDeadlines(), sweepMs);
    return bound;
  }

  #checkDeadlines(): void {
    const now = this.#parts.clock.monotonic();
    for (const session of this.#sessions) session.checkDeadline(now);
    for (const { server } of this.#servers) server.checkDeadlines(now);
  }

  async drain(withinMs: number): Promise<void> {
    const gone = this.#servers.map(({ server }) => server.shut());
    for (const session of this.#sessions) session.drain();
    const cut = setTimeout(() => {
      for (const session of this.#sessions) session.destroy();
    }, withinMs);
    await Promise.all(gone);
    await this.#counter.empty();
    clearTimeout(cut);
    clearInterval(this.#sweep);
  }

  counts(): SmtpDoorCounts {
    return {
      connections: this.#counter.open,
      ...this.#seen,
      messagesAccepted: this.#messages.accepted,
      messagesRefused: this.#messages.refused,
      messagesFailed: this.#messages.failed,
    };
  }
}

function checkListener(listener: SmtpListener, accounts: DoorAccounts): void {
  const where = `SMTP listener "${listener.name}"`;
  if (listener.role === 'bounce') {
    throw new ConfigurationError(`${where}: role "bounce" is not available yet, set enabled: false`);
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

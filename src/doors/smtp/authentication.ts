// AUTH PLAIN and LOGIN by API token: the exchange, its failures, and who the client is (RFC 4954, D40-D42, D93).

import type { Submitter } from '../../accounts/account.ts';
import { hashToken } from '../../accounts/token-store.ts';
import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import { Part } from '../../base/part.ts';
import type { Client, DialogueContext } from './dialogue-context.ts';
import { type Answer, replies } from './replies.ts';

// A client's responses in SASL PLAIN (RFC 4616) and LOGIN. The password is an API token (D93).

interface Login {
  readonly mechanism: 'PLAIN' | 'LOGIN';
  readonly userName: string;
  readonly password: string;
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Decodes a response; `=` stands for an empty one (RFC 4954 §4). @returns undefined when it is no base64 */
function decodeResponse(text: string): string | undefined {
  if (text === '=') return '';
  if (text.length % 4 !== 0 || !base64.test(text)) return undefined;
  return Buffer.from(text, 'base64').toString('utf8');
}

/**
 * Reads a PLAIN message: authzid NUL authcid NUL password. Some clients put the user name into the authzid alone; that is
 * accepted. Acting for another identity is not offered: two different names give an empty user name, which nobody has.
 * @returns undefined when it does not have three parts
 */
function readPlain(message: string): Login | undefined {
  const [authorization, authentication, password, ...rest] = message.split('\0');
  if (authorization === undefined || authentication === undefined || password === undefined || rest.length > 0) {
    return undefined;
  }
  const isOne = authorization === '' || authorization === authentication;
  const userName = isOne ? authentication : authentication === '' ? authorization : '';
  return { mechanism: 'PLAIN', userName, password };
}

/** One session's authentication. */
export class Authentication extends Part<{ readonly context: DialogueContext; readonly client: Client }> {
  #helo: string | undefined;
  #submitter: Submitter | undefined;
  /** The hash of the token that was accepted, for reading its row again. */
  #tokenHash = '';
  #exchange: ((response: string) => MaybePromise<Answer>) | undefined;
  #failures = 0;

  get submitter(): Submitter | undefined {
    return this.#submitter;
  }

  /** The client's next line is a response to a challenge, not a command. */
  get pending(): boolean {
    return this.#exchange !== undefined;
  }

  /** Reads the token again: one revoked or expired since the login counts no more (D94). undefined, and nobody from then on. */
  renew(): MaybePromise<Submitter | undefined> {
    const submitter = this.#submitter;
    if (!submitter) return undefined;
    return whenKnown(this.parts.context.accounts.authenticateHash(this.#tokenHash), (found) => {
      if (found?.credential.scopes.has('email:send')) {
        this.#submitter = found;
        return found;
      }
      const { log, listener } = this.parts.context;
      const { sessionId: session, address: client } = this.parts.client;
      const facts = { session, listener: listener.name, client, account: submitter.account.name };
      log.info({ ...facts, credential: submitter.credential.name }, 'token no longer valid');
      this.forget();
      return undefined;
    });
  }

  /** Forgets the submitter (RFC 3207 §4.2); failures stay counted. */
  forget(): void {
    this.#submitter = undefined;
    this.#exchange = undefined;
  }

  cancel(): void {
    this.#exchange = undefined;
  }

  /** Answers an AUTH command. @param argument what stands behind `AUTH ` */
  begin(argument: string, helo: string | undefined): MaybePromise<Answer> {
    this.#helo = helo;
    const [mechanism = '', initial, ...rest] = argument.split(/ +/);
    if (mechanism === '' || rest.length > 0) return replies.authSyntax;
    switch (mechanism.toUpperCase()) {
      case 'PLAIN':
        return this.#take(initial, replies.challenge, (message) => {
          const login = readPlain(message);
          return login ? this.#login(login) : replies.badPlain;
        });
      case 'LOGIN':
        return this.#take(initial, replies.userNameChallenge, (userName) =>
          this.#take(undefined, replies.passwordChallenge, (password) =>
            this.#login({ mechanism: 'LOGIN', userName, password }),
          ),
        );
      default:
        return replies.unknownMechanism;
    }
  }

  respond(response: string): MaybePromise<Answer> {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    return exchange ? exchange(response) : replies.unknownCommand;
  }

  /** Decodes a response, either the given one or the answer to a challenge, and hands it on. */
  #take(
    given: string | undefined,
    challenge: Answer,
    next: (message: string) => MaybePromise<Answer>,
  ): MaybePromise<Answer> {
    if (given === undefined) {
      this.#exchange = (response) =>
        // RFC 4954 §4: a lone `*` cancels the exchange.
        response === '*' ? replies.authCancelled : this.#take(response, challenge, next);
      return challenge;
    }
    const message = decodeResponse(given);
    return message === undefined ? replies.badBase64 : next(message);
  }

  #login(login: Login): MaybePromise<Answer> {
    const pause = this.parts.context.guessing.pause(this.parts.client.address);
    return pause ? pause.then(() => this.#judge(login)) : this.#judge(login);
  }

  /** D93: the password alone selects the token. It is looked up for every user name, so that timing reveals nothing. */
  #judge(login: Login): MaybePromise<Answer> {
    const { userName, password } = login;
    const tokenHash = hashToken(password);
    return whenKnown(this.parts.context.accounts.authenticateHash(tokenHash), (found) => {
      const named =
        found && (userName === 'api_token' || userName === found.account.id || userName === found.account.name);
      if (!found || !named) return this.#guessed(login);
      if (!found.credential.scopes.has('email:send')) return this.#failed(login, replies.scopeMissing);
      this.#submitter = found;
      this.#tokenHash = tokenHash;
      return replies.authenticated;
    });
  }

  /** Answers a wrong token: the more of them its address has sent to any door, the longer the answer waits (D92). */
  #guessed(login: Login): MaybePromise<Answer> {
    return whenKnown(this.parts.context.guessing.failed(this.parts.client.address), (penalty) => {
      if (penalty.kind === 'turnedAway') {
        // In a flood, wrong tokens are only counted, not logged one by one.
        this.parts.context.onAuthFailure();
        return replies.tooManyAuthFailures;
      }
      const answer = this.#failed(login, replies.badCredentials);
      return penalty.over ? penalty.over.then(() => answer) : answer;
    });
  }

  #failed({ mechanism, userName }: Login, answer: Answer): Answer {
    const { accounts, listener, log, limits, onAuthFailure } = this.parts.context;
    this.#failures += 1;
    onAuthFailure();
    log.warn(
      {
        session: this.parts.client.sessionId,
        listener: listener.name,
        client: this.parts.client.address,
        helo: this.#helo,
        mechanism,
        // People type secrets into the wrong field: an unknown user name is not logged.
        user: userName === 'api_token' || accounts.find(userName) ? userName : '(unknown)',
        failures: this.#failures,
        reply: answer.text,
      },
      'authentication failed',
    );
    return this.#failures < limits.authFailures
      ? answer
      : { ...answer, also: replies.tooManyAuthFailures, next: 'close' };
  }
}

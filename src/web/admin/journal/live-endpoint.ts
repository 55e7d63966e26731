// GET .../email/sending/live: the journal's rows as they come and change, as server-sent events (HTML Living Standard §9.2).

import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { hasScope } from '../../../accounts/account.ts';
import type { SharedSlots } from '../../../base/process-group.ts';
import { endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import { refusal } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { rowJson } from './entry-json.ts';
import { journalOff } from './journal-endpoints.ts';
import { createStreamSlots, type HubParts, LiveHub, type LiveRow } from './live-hub.ts';

/** Octets that wait for a client that does not read; then its stream ends, and the client comes again where it was. */
const mostWaiting = 262_144;
/** How often is looked whether the process stops; every so many times, who was let in is judged, and streams show that they are alive. */
const tickMs = 250;
const judgedTicks = 12;
const heartbeatTicks = 60;
/** How long a stream lasts: whoever watches on is authorised anew then. */
const lifetimeMs = 15 * 60_000;

function textOf({ event, item }: LiveRow): string {
  return `id: ${event}\nevent: row\ndata: ${JSON.stringify(rowJson(item))}\n\n`;
}

class LiveStream {
  readonly #response: ServerResponse;
  readonly #refusedNow: () => Promise<unknown>;
  readonly #onEnd: () => void;
  #isEnded = false;
  #isJudged = false;
  /** What has come in this turn. */
  #gathered = '';
  /** Rows that come while missed ones are read. */
  #early: LiveRow[] | undefined = [];
  #last = 0;

  /** @param onEnd called once, when it ends or its client has gone */
  constructor(response: ServerResponse, refusedNow: () => Promise<unknown>, onEnd: () => void) {
    this.#response = response;
    this.#refusedNow = refusedNow;
    this.#onEnd = onEnd;
  }

  readonly tell = (row: LiveRow): void => {
    if (!this.#early) this.#row(row);
    else if (this.#early.length < 2000) this.#early.push(row);
    else this.end();
  };

  /** Writes what was missed, and then what has come meanwhile. @param missed undefined: the client reads the list anew */
  begin(missed: readonly LiveRow[] | undefined): void {
    const texts = missed?.map(textOf) ?? [];
    const octets = texts.reduce((sum, text) => sum + text.length, 0);
    // More than may wait for a client would not arrive before it counts as one that does not read, however often it came again.
    if (missed === undefined || octets > mostWaiting) this.write('event: reset\ndata: {}\n\n');
    else for (const text of texts) this.write(text);
    this.#last = missed?.at(-1)?.event ?? 0;
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const row of early) this.#row(row);
  }

  /** Writes what comes in one turn at once. Only what was written in earlier turns and still waits counts against the client. */
  write(text: string): void {
    if (this.#isEnded) return;
    if (this.#gathered === '') setImmediate(() => this.#flush());
    this.#gathered += text;
  }

  #flush(): void {
    if (this.#isEnded) return;
    const text = this.#gathered;
    this.#gathered = '';
    if (this.#response.writableLength > mostWaiting) this.end();
    else this.#response.write(text);
  }

  end(): void {
    if (!this.forget()) return;
    // What waits is not waited for: the client does not read.
    if (this.#response.writableLength > 0) this.#response.destroy();
    else this.#response.end();
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Ends without an end of its answer, which tells of a failure. @returns whether it was open */
  forget(): boolean {
    if (this.#isEnded) return false;
    this.#isEnded = true;
    this.#onEnd();
    return true;
  }

  /** Ends where what let the client in holds no longer: its session was signed out, its token was revoked. */
  async judge(): Promise<void> {
    if (this.#isJudged || this.#isEnded) return;
    this.#isJudged = true;
    try {
      if (await this.#refusedNow()) this.end();
    } catch {
      // The database cannot be asked now; it is asked again.
    }
    this.#isJudged = false;
  }

  #row(row: LiveRow): void {
    const { event } = row;
    if (event <= this.#last) return;
    this.#last = event;
    this.write(textOf(row));
  }
}

function isOperator({ submitter }: FastifyRequest): boolean {
  return submitter !== undefined && hasScope(submitter.credential, 'admin');
}

/** The streams that are open, of all endpoints that a process has had since its start: a reload makes other endpoints. */
export class LiveStreams {
  readonly #hub: LiveHub;
  readonly #takePlace: ReturnType<typeof createStreamSlots>;
  readonly #isServing: () => boolean;
  readonly #open = new Set<LiveStream>();
  #ticking: NodeJS.Timeout | undefined;
  #ticks = 0;

  /** @param isServing false once the process begins to stop: the streams end then, since its end waits for all answers */
  constructor(
    { places, ...parts }: HubParts & { readonly places?: SharedSlots | undefined },
    isServing: () => boolean,
  ) {
    this.#hub = new LiveHub(parts);
    this.#takePlace = createStreamSlots(places);
    this.#isServing = isServing;
  }

  /** Ends streams that are to end, and shows from time to time that the others are alive. */
  #tick(): void {
    this.#ticks += 1;
    const isDue = this.#ticks % heartbeatTicks === 0;
    const isJudged = this.#ticks % judgedTicks === 0;
    for (const stream of [...this.#open]) {
      if (!this.#isServing()) stream.end();
      else if (isDue) stream.write('event: alive\ndata: {}\n\n');
      if (isJudged) void stream.judge();
    }
  }

  #close(stream: LiveStream): void {
    this.#open.delete(stream);
    if (this.#open.size > 0) return;
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }

  /** Opens a stream. @param account whose rows are told of; undefined: all @throws Refusal where there are too many */
  async open(request: FastifyRequest, reply: FastifyReply, account: string | undefined): Promise<void> {
    // The operator's places are the operator's own, also for looking at one account.
    const leave = await this.#takePlace(isOperator(request) ? undefined : account);
    if (!leave) throw refusal('E_RATE_LIMIT_EXCEEDED', 'Too many live streams are open', 10);
    const { raw } = reply;
    const { socket } = request.raw;
    // Whoever has gone meanwhile closes nothing any more.
    if (raw.destroyed || socket.destroyed || socket.readableEnded) {
      leave();
      return void reply.hijack();
    }
    const close = (): void => {
      leave();
      unwatch();
      clearTimeout(lifetime);
      socket.off('close', end);
      socket.off('end', end);
      this.#close(stream);
    };
    const stream = new LiveStream(raw, request.refusedNow ?? (() => Promise.resolve()), close);
    const end = (): void => stream.end();
    this.#open.add(stream);
    const unwatch = this.#hub.watch({ account, tell: stream.tell });
    this.#ticking ??= setInterval(() => this.#tick(), tickMs);
    const lifetime = setTimeout(end, lifetimeMs);
    raw.once('close', end);
    // An answer behind another one of the same connection is not told of its end.
    socket.once('close', end);
    // A browser that leaves the page ends its side alone; a connection may stay half open (RFC 9112 §9.6).
    socket.once('end', end);
    try {
      const after = Number(/^[0-9]{1,15}$/.exec(String(request.headers['last-event-id'] ?? ''))?.[0] ?? Number.NaN);
      const missed = Number.isNaN(after) ? [] : await this.#hub.missed(after, account);
      reply.hijack();
      if (stream.isEnded) return;
      for (const [name, value] of Object.entries({ ...reply.getHeaders(), ...streamHeaders }))
        if (value !== undefined) raw.setHeader(name, value);
      raw.writeHead(200);
      stream.write('retry: 2000\n\n');
      stream.begin(missed);
    } catch (thrown) {
      stream.forget();
      throw thrown;
    }
  }
}

const streamHeaders = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
  'X-Accel-Buffering': 'no',
} as const;

const watch = endpoint({
  at: 'GET',
  operationId: 'watchJournal',
  summary: 'Tell of each row of the journal as it comes or changes, as server-sent events',
  description:
    'Each event `row` has a row as data; its id resumes the stream by `Last-Event-ID`. An event `alive` comes every 15 seconds: where it stays away, the connection is gone. An event `reset` says that too much was missed: read the list anew. A stream ends after 15 minutes.',
  answerType: 'text/event-stream',
  // An answer to HEAD would stay open without anything to be told.
  exposeHeadRoute: false,
  async answer({ of, request, reply }, { streams, isOn }: { readonly streams: LiveStreams; readonly isOn: boolean }) {
    if (!isOn) throw refusal('E_NOT_FOUND', journalOff);
    await streams.open(request, reply, of);
    return reply;
  },
});

/** The endpoints of live rows. @param isOn `journal.enabled`; where it is off, no row comes or changes */
export function liveEndpoints(streams: LiveStreams, isOn: boolean): V4Plugin {
  return endpointsOfBoth({ path: '/email/sending/live', tag: 'Journal' }, { streams, isOn }, [watch]);
}

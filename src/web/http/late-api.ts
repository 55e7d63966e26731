// The API, loaded with the first request to it: a gateway that takes mail by SMTP alone never needs it.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Unavailable } from '../../base/errors.ts';
import { lazily } from '../../base/load/lazily.ts';
import type { ApiParts } from './api.ts';
import type { Answerer } from './front.ts';
import { isHeadTooLarge } from './listener/head-octets.ts';
import { answerPlainly, probeAnswers } from './plain-routes.ts';

/** The API under some settings. */
export class LateApi {
  readonly #parts: ApiParts;
  readonly #load: () => Promise<Answerer>;
  #loaded: Answerer | undefined;

  /** @param onAuthFailure told of each wrong token */
  constructor(parts: ApiParts, onAuthFailure: () => void) {
    this.#parts = parts;
    this.#load = lazily(async () => {
      const { createApi } = await import('./api.ts');
      return (this.#loaded = await createApi(parts, onAuthFailure));
    });
  }

  /** Whether a request has asked for it. */
  get isLoaded(): boolean {
    return this.#loaded !== undefined;
  }

  /** Loads it. @throws what was wrong with a route or an endpoint */
  async load(): Promise<void> {
    await this.#load();
  }

  /** Answers a request. The first one waits while the API is loaded; probes do not wait for it. */
  readonly answer = (request: IncomingMessage, response: ServerResponse): void => {
    if (this.#loaded) this.#loaded(request, response);
    else void this.#answerLate(request, response);
  };

  async #answerLate(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const probe = this.#probeOf(request);
      if (!probe) return (await this.#load())(request, response);
      const { status, headers, text } = await probe(this.#parts);
      response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(text) }).end(text);
    } catch (error) {
      this.#parts.log.error({ method: request.method, err: error }, 'http request failed');
      if (response.headersSent) return;
      const isAway = error instanceof Unavailable;
      if (isAway) response.setHeader('Retry-After', error.retryAfterSeconds);
      answerPlainly(response, isAway ? 503 : 500, isAway ? error.message : 'Internal error');
    }
  }

  /** What answers a request of a probe or scraper as the API would; undefined where only the API can. */
  #probeOf(request: IncomingMessage): (typeof probeAnswers)[keyof typeof probeAnswers] | undefined {
    const { method, url = '', headers } = request;
    if (method !== 'GET' || isHeadTooLarge(request)) return undefined;
    if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) return undefined;
    if (url === '/livez' || url === '/readyz') return probeAnswers[url];
    return url === '/metrics' && !this.#parts.metricsToken ? probeAnswers[url] : undefined;
  }
}

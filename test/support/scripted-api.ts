// An HTTP peer that plays a list of answers, for what a real server does not do on command: failing, being slow, lying.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as it came. */
export interface SeenRequest {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Plays one answer. */
export type Play = (response: ServerResponse) => void;

/** A running peer. */
export interface ScriptedApi {
  readonly endpoint: string;
  readonly seen: SeenRequest[];
  close(): Promise<void>;
}

/** Answers JSON. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Play {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  };
}

/** The answer to a message that was accepted (D44). */
export const accepted: Play = json(200, {
  success: true,
  errors: [],
  messages: [],
  result: { delivered: [], permanent_bounces: [], queued: ['you@example.net'], message_id: 'id-1@platform.example' },
});

/** A refusal in the v4 envelope (D45). */
export function refused(
  status: number,
  errors: readonly { readonly code: number; readonly message: string; readonly pointer?: string }[],
  headers: Readonly<Record<string, string>> = {},
): Play {
  const items = errors.map(({ pointer, ...item }) => ({ ...item, ...(pointer ? { source: { pointer } } : {}) }));
  return json(status, { success: false, errors: items, messages: [], result: null }, headers);
}

/** Cuts the connection without an answer. */
export const hangUp: Play = (response) => void response.socket?.resetAndDestroy();

/** Never answers. */
export const silence: Play = () => undefined;

/** Starts it; the last answer is played again for every further request. */
export async function startScriptedApi(plays: readonly [Play, ...Play[]]): Promise<ScriptedApi> {
  const seen: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body: Buffer.concat(chunks) });
      (plays[seen.length - 1] ?? plays.at(-1))?.(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    seen,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

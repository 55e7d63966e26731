// An endpoint of webhooks on loopback: keeps what it is sent and answers as the test says.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request that came in. */
export interface HookRequest {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly json: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: Readonly<Record<string, unknown>> & { readonly id: string; readonly recipient?: string };
  };
}

/** How a request is answered: a status, or whatever the test does with it. */
export type HookAnswer = number | ((request: HookRequest, response: ServerResponse) => void);

async function read(request: IncomingMessage): Promise<HookRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const body = Buffer.concat(chunks).toString();
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  return { headers, body, json: JSON.parse(body) };
}

/** Starts an endpoint; it is closed when the test ends. */
export async function startHookEndpoint(answer: (request: HookRequest, index: number) => HookAnswer = () => 200) {
  const requests: HookRequest[] = [];
  let open = 0;
  let mostOpen = 0;
  const server = createServer((incoming, response) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    response.on('close', () => (open -= 1));
    void read(incoming).then((request) => {
      requests.push(request);
      const how = answer(request, requests.length - 1);
      if (typeof how === 'function') how(request, response);
      else response.writeHead(how).end('ok');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/in`, port, requests, most: () => mostOpen };
}

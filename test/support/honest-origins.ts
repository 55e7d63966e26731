// Origins that do everything right: one of HTTP on node:http, and echoes by TCP, TLS and UDP. All on loopback; they end with
// their process.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { TestCertificate } from './certificate.ts';

/** Their ports. */
export interface HonestOrigins {
  readonly http: number;
  readonly plain: number;
  readonly secure: number;
  readonly udp: number;
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function echo(stream: Socket): void {
  stream.on('error', () => undefined);
  stream.pipe(stream);
}

/** Starts them; the certificate is that of the TLS echo. */
export async function startHonestOrigins(certificate: TestCertificate): Promise<HonestOrigins> {
  const http = createHttpServer((_, response) => response.end('ok'));
  const udp = createSocket('udp4');
  udp.on('message', (data, { port, address }) => udp.send(data, port, address, () => undefined));
  udp.bind(0, '127.0.0.1');
  await once(udp, 'listening');
  return {
    http: await listening(http),
    plain: await listening(createServer({ allowHalfOpen: true }, echo)),
    secure: await listening(createTlsServer({ ...certificate, allowHalfOpen: true }, echo)),
    udp: udp.address().port,
  };
}

// Port 0 means any free port, and every process must have the same: the supervisor chooses it once, so that a process that is
// started again listens where it did, even where all have ended meanwhile.

import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Config } from '../config/config.ts';

/** The ports that stand in for 0, by the listener's name. */
export type ChosenPorts = Readonly<Record<string, number>>;

interface At {
  readonly host: string;
  readonly port: number;
}

/** The listeners of a configuration by their names. */
function listenersOf({ smtp, http }: Config): readonly (readonly [string, At])[] {
  const { listen, tlsListen, adminListen } = http;
  return [
    ...smtp.listeners.map((listener) => [listener.name, listener] as const),
    ['http', listen],
    ...(tlsListen ? [['https', tlsListen] as const] : []),
    ...(adminListen ? [['admin', adminListen] as const] : []),
  ];
}

/** Chooses free ports. All are held until the last is chosen. @throws the system's error where an address cannot be bound */
export async function choosePorts(config: Config): Promise<ChosenPorts> {
  const open = listenersOf(config).filter(([, { port }]) => port === 0);
  const servers = open.map(([, { host }]) => createServer().listen({ host, port: 0, exclusive: true }));
  try {
    await Promise.all(servers.map((server) => once(server, 'listening')));
    return Object.fromEntries(
      servers.map((server, index) => {
        const address = server.address();
        return [open[index]?.[0] ?? '', typeof address === 'object' && address ? address.port : 0];
      }),
    );
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

/** Puts the chosen ports in the place of 0. */
export function withPorts(config: Config, ports: ChosenPorts): Config {
  const fix = <Listener extends At>(name: string, at: Listener): Listener =>
    at.port === 0 ? { ...at, port: ports[name] ?? 0 } : at;
  const { smtp, http } = config;
  const { listen, tlsListen, adminListen } = http;
  return {
    ...config,
    smtp: { ...smtp, listeners: smtp.listeners.map((listener) => fix(listener.name, listener)) },
    http: {
      ...http,
      listen: fix('http', listen),
      ...(tlsListen ? { tlsListen: fix('https', tlsListen) } : {}),
      ...(adminListen ? { adminListen: fix('admin', adminListen) } : {}),
    },
  };
}

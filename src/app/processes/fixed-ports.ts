// Port 0 is a free port, the same for every process: the supervisor chooses it once, and a process started again listens there.

import { once } from 'node:events';
import { createServer } from 'node:net';
import type { HostPort } from '../config/addresses.ts';
import type { Config } from '../config/config.ts';
import { configuredListeners } from '../wiring/addresses.ts';

/** The ports that stand in for 0, by the listener's name. */
export type ChosenPorts = Readonly<Record<string, number>>;

/** Chooses free ports. All are held until the last is chosen. @throws the system's error where an address cannot be bound */
export async function choosePorts(config: Config): Promise<ChosenPorts> {
  const open = configuredListeners(config).filter(({ port }) => port === 0);
  const servers = open.map(({ host }) => createServer().listen({ host, port: 0, exclusive: true }));
  try {
    await Promise.all(servers.map((server) => once(server, 'listening')));
    return Object.fromEntries(
      servers.map((server, index) => {
        const address = server.address();
        return [open[index]?.name ?? '', typeof address === 'object' && address ? address.port : 0];
      }),
    );
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

/** Puts the chosen ports in the place of 0. */
export function withPorts(config: Config, ports: ChosenPorts): Config {
  const fix = <Listener extends HostPort>(name: string, at: Listener): Listener =>
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

import { expect, test } from 'vitest';
import { hostName, serverHosts } from '../../../src/base/postgres/server-hosts.ts';

test('a URL of one server stays as it is', () => {
  const url = 'postgres://u:p%40@db.test:5433/name?sslmode=verify-full';
  expect(serverHosts(url)).toEqual({ url, hosts: [{ host: 'db.test', port: 5433 }] });
  expect(serverHosts('not a url')).toEqual({ url: 'not a url', hosts: [{}] });
});

test('several servers are told, and the URL for the driver names the first', () => {
  expect(serverHosts('postgres://u@a.test:5433,[2001:db8::1],c.test:1/name?target_session_attrs=read-write')).toEqual({
    url: 'postgres://u@a.test:5433/name',
    hosts: [{ host: 'a.test', port: 5433 }, { host: '2001:db8::1' }, { host: 'c.test', port: 1 }],
  });
});

test('several folders of sockets are told', () => {
  expect(serverHosts('postgres://u@/name?host=%2Frun%2Fa,%2Frun%2Fb&port=5432,5433')).toEqual({
    url: 'postgres://u@/name?host=%2Frun%2Fa&port=5432',
    hosts: [
      { host: '/run/a', port: 5432 },
      { host: '/run/b', port: 5433 },
    ],
  });
});

test('a server is named with its port, and never with a password', () => {
  expect([{ host: 'a', port: 1 }, { host: '/run' }, {}].map(hostName)).toEqual(['a:1', '/run', 'the default server']);
});

// Keys that a configuration once could name. Nobody had a reason to set them, and each now is what its default was.

/** A key that is gone: the release that took it away, and what holds in its place. */
interface RemovedKey {
  readonly since: string;
  readonly now: string;
}

const removedKeys: Readonly<Record<string, RemovedKey>> = {
  'bounces.messageBytes': { since: '0.1.0', now: 'a report has at most 1048576 octets' },
  'bounces.connections': { since: '0.1.0', now: 'the bounce listeners have at most 200 connections' },
  'bounces.connectionsPerAddress': {
    since: '0.1.0',
    now: 'an address has at most 50 connections to the bounce listeners',
  },
  'events.refusalsPerAccount': { since: '0.1.0', now: 'the newest 50000 refusals of an account are kept' },
  'http.adminLimits': { since: '0.1.0', now: 'the admin listener has at most 1000 connections, 100 from one address' },
  'reports.perMessage': { since: '0.1.0', now: 'at most 10 reports are made about one message' },
  'tlsReports.delayMinutes': { since: '0.1.0', now: 'a report leaves up to 240 minutes after the end of its day' },
};

/** What is said of a key that was taken away; undefined for any other. @param path such as `http.adminLimits` */
export function removedKeyText(path: string): string | undefined {
  const removed = Object.hasOwn(removedKeys, path) ? removedKeys[path] : undefined;
  return removed && `is gone since ${removed.since}: ${removed.now}; take the key out`;
}

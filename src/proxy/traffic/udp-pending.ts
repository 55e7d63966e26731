// Datagrams that wait until an origin is chosen, bounded for each session and for each application.

import { oncePer } from '../../base/once-per.ts';
import type { MutableTraffic } from './listener.ts';

/** Datagrams of one session. */
export const mostPendingDatagrams = 32;
/** Octets of one session: two of the largest datagrams, with what they cost besides. */
const mostPendingOctets = 132_096;
/** Octets of all sessions of an application: sources that are made up cannot fill the memory while DNS is slow. */
export const mostPendingOfApplication = 8 * 1024 * 1024;
/** What keeping a datagram costs beside its octets. */
const overheadOctets = 256;

// The counters are what all plans and ports of an application share.
const waitingOf = oncePer<MutableTraffic, { octets: number }>(() => ({ octets: 0 }));

/** Makes the queue of one session. */
export function pendingDatagrams(application: MutableTraffic) {
  const all = waitingOf(application);
  let queue: Buffer[] = [];
  let octets = 0;
  return {
    /** @returns false where it does not fit and is dropped */
    add(datagram: Buffer): boolean {
      const cost = datagram.length + overheadOctets;
      if (queue.length >= mostPendingDatagrams || octets + cost > mostPendingOctets) return false;
      if (all.octets + cost > mostPendingOfApplication) return false;
      queue.push(datagram);
      octets += cost;
      all.octets += cost;
      return true;
    },
    /** Everything in the order it came; nothing waits afterwards. */
    take(): readonly Buffer[] {
      const taken = queue;
      queue = [];
      all.octets -= octets;
      octets = 0;
      return taken;
    },
  };
}

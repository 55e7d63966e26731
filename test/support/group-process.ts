// A process of a group as the supervisor sees it, without a gateway: the tests of the supervisor start several in a moment.

import type { FromProcess, ToProcess } from '../../src/app/processes/messages.ts';
import { SupervisorLink } from '../../src/app/processes/supervisor-link.ts';

const send = (message: FromProcess, done?: () => void): void =>
  void process.send?.(message, undefined, undefined, () => done?.());

process.on('message', (order: ToProcess) => {
  if (order.kind !== 'start') return;
  const link = new SupervisorLink({ send, on: (event, listener) => void process.on(event, listener) }, order);
  // The text of the configuration says how the process behaves.
  if (order.text === 'dies') {
    send({ kind: 'failed', exitCode: 78, reason: 'it dies at every start' }, () => process.exit(3));
    return;
  }
  link.obey({
    reload: async (text) => {
      // As one that SIGTERM has reached meanwhile: it answers no more.
      if (text === 'the first drains' && order.number === 1) {
        link.tell({ kind: 'draining' });
        return await new Promise(() => undefined);
      }
      try {
        await link.agree();
      } catch (error) {
        return { ok: false, faults: [String(error)] };
      }
      return { ok: true, changed: [text] };
    },
    values: async () => [],
    destinations: async () => [],
    ready: async () => true,
    applications: async () => [],
  });
  link.tell({ kind: 'serving', listening: [] });
  void link.drained.then(() => process.exit(0));
});
send({ kind: 'hello' });

// Whatever order plans come in, and however close together: what listens in the end is what the last ones say.

import { expect, test } from 'vitest';
import type { ForwardingPlan } from '../../../src/proxy/application/application.ts';
import fc from '../../support/properties.ts';
import {
  dial,
  directTo,
  isOpen,
  loopbackAddress,
  planOf,
  readToEnd,
  startPlane,
  type TestPlane,
  tcpServer,
} from '../../support/proxy-plane.ts';

const ids = ['a', 'b', 'c'].map((letter) => letter.repeat(32));
const edgePorts = [22, 23, 24, 25, 26];

interface Asked {
  readonly application: number;
  readonly places: readonly boolean[];
  readonly first: number;
  readonly length: number;
}

const asked: fc.Arbitrary<Asked> = fc.record({
  application: fc.nat(ids.length - 1),
  places: fc.tuple(fc.boolean(), fc.boolean()),
  first: fc.constantFrom(...edgePorts),
  length: fc.integer({ min: 1, max: 3 }),
});
const stepOf = fc.record({
  plans: fc.uniqueArray(asked, { selector: ({ application }) => application, maxLength: 3 }),
  isAwaited: fc.boolean(),
});

/** Who answers on an edge port: the first plan that asks for it. */
function ownerOf(plans: readonly ForwardingPlan[], address: string, port: number): string | undefined {
  return plans.find(({ addresses, ports }) => addresses.includes(address) && ports.first <= port && port <= ports.last)
    ?.id;
}

async function expectListeners(plane: TestPlane, plans: readonly ForwardingPlan[], addresses: readonly string[]) {
  for (const address of addresses) {
    for (let port = 20; port < 30; port += 1) {
      const owner = ownerOf(plans, address, port);
      expect(await isOpen(address, port), `${address} port ${port}`).toBe(owner !== undefined);
      if (owner === undefined) continue;
      const client = await dial(address, port);
      client.end();
      expect(String(await readToEnd(client))).toBe(owner);
    }
  }
  for (const plan of plans) {
    const ports = Array.from({ length: plan.ports.last - plan.ports.first + 1 }, (_, step) => plan.ports.first + step);
    const hasAll = plan.addresses.every((address) => ports.every((port) => ownerOf(plans, address, port) === plan.id));
    expect(plane.status(plan.id).state).toBe(hasAll ? 'active' : 'failed');
  }
}

test('listeners equal the plans after any sequence of changes', async () => {
  const originAddress = loopbackAddress();
  for (let step = 0; step < 3; step += 1) {
    for (const [index, id] of ids.entries()) {
      const port = 7000 + index * 10 + step;
      await tcpServer((socket) => socket.end(id), { address: originAddress, port });
    }
  }
  const run = fc.asyncProperty(fc.array(stepOf, { minLength: 1, maxLength: 6 }), async (steps) => {
    const addresses = [loopbackAddress(), loopbackAddress()];
    const plansOf = ({ application, places, first, length }: Asked): ForwardingPlan[] => {
      const id = ids[application];
      const chosen = addresses.filter((_, index) => places[index]);
      if (id === undefined || chosen.length === 0) return [];
      const port = 7000 + application * 10;
      const ports = { first: port, last: port + length - 1 };
      const origin = { kind: 'direct', origins: [{ address: originAddress, ports }] } as const;
      return [planOf({ id, addresses: chosen, ports: { first, last: first + length - 1 }, origin })];
    };
    const plane = await startPlane([], { retry: { firstMs: 60_000, longestMs: 60_000 } });
    let plans: ForwardingPlan[] = [];
    let applied = Promise.resolve();
    for (const step of steps) {
      plans = step.plans.flatMap(plansOf);
      applied = plane.apply(...plans);
      if (step.isAwaited) await applied;
    }
    await applied;
    await expectListeners(plane, plans, addresses);
    // Nothing changes where nothing has changed, and nothing is left behind.
    await plane.reconcile();
    await expectListeners(plane, plans, addresses);
    await plane.drain(0);
    await expectListeners(plane, [], addresses);
  });
  await fc.assert(run, { numRuns: 25 });
}, 60_000);

test('no octet is lost, added or changed, however both sides send', async () => {
  const address = loopbackAddress();
  const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 200_000, size: 'max' }), { maxLength: 5 });
  const run = fc.asyncProperty(pieces, pieces, async (fromClient, fromOrigin) => {
    const received = Promise.withResolvers<Buffer>();
    const origin = await tcpServer((socket) => {
      for (const piece of fromOrigin) socket.write(piece);
      socket.end();
      readToEnd(socket).then(received.resolve, received.reject);
    });
    const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
    const client = await dial(address, 22);
    for (const piece of fromClient) client.write(piece);
    client.end();
    expect((await readToEnd(client)).equals(Buffer.concat(fromOrigin))).toBe(true);
    expect((await received.promise).equals(Buffer.concat(fromClient))).toBe(true);
    await plane.drain(1000);
    await origin.stop();
  });
  await fc.assert(run, { numRuns: 25 });
}, 60_000);

// Plays every test/dialogues/*.smtp against a real door on loopback, whether its stores answer at once or late, and holds that any split of the client's octets
// gives the same transcript.

import { describe, expect, test } from 'vitest';
import type { Submission } from '../src/pipeline/submit.ts';
import { choicesFor, type DialogueFile, readDialogues } from './support/dialogue-file.ts';
import { answeringLate } from './support/late-answers.ts';
import fc from './support/properties.ts';
import { type DoorChoices, RawClient, startDoor } from './support/smtp-peers.ts';

const dialogues = readDialogues();

function bodyOf(submission: Submission): string {
  return submission.body.kind === 'mime' ? submission.body.bytes.toString('latin1') : '';
}

async function greet(client: RawClient, dialogue: DialogueFile): Promise<void> {
  if (!dialogue.hello) return;
  await client.reply();
  await client.ask('EHLO client.example');
}

/** Takes one line of what the server says. */
async function lineOf(client: RawClient): Promise<string> {
  await client.until((received) => received.includes('\r\n'));
  const end = client.received.indexOf('\r\n');
  const line = end < 0 ? client.received : client.received.slice(0, end);
  client.received = client.received.slice(line.length + 2);
  return line;
}

async function play(client: RawClient, dialogue: DialogueFile): Promise<void> {
  await greet(client, dialogue);
  let pending = '';
  for (const [index, step] of dialogue.steps.entries()) {
    if (step.kind === 'send') {
      pending += step.octets;
      if (dialogue.steps[index + 1]?.kind === 'send') continue;
      client.send(pending);
      pending = '';
    } else if (step.kind === 'line') {
      const line = await lineOf(client);
      const said = step.whole ? line : line.slice(0, step.text.length);
      expect(`${step.at}: ${said}`).toBe(`${step.at}: ${step.text}`);
    } else {
      expect(`${step.at}: ${await client.untilEnd()}`).toBe(`${step.at}: `);
      expect(client.ended).toBe(true);
    }
  }
}

test('there are dialogues', () => {
  expect(dialogues.length).toBeGreaterThanOrEqual(60);
});

const stores: readonly [string, (choices: DoorChoices) => DoorChoices][] = [
  ['stores that answer at once', (choices) => choices],
  ['stores that answer late', (choices) => answeringLate(choices, () => 1)],
];

describe.each(stores)('%s', (_stores, choose) => {
  test.each(dialogues.map((dialogue) => [dialogue.name, dialogue] as const))('%s', async (_name, dialogue) => {
    const submissions: Submission[] = [];
    const running = await startDoor(choose(choicesFor(dialogue, submissions)));
    const client = RawClient.open(running.port(dialogue.listener.name));
    try {
      await play(client, dialogue);
      expect(submissions.map(bodyOf)).toEqual(dialogue.bodies);
    } finally {
      client.destroy();
      await running.door.drain(0);
    }
  });
});

/** All that the client sends behind the greeting. */
function octetsOf(dialogue: DialogueFile): Buffer {
  return Buffer.from(dialogue.steps.map((step) => (step.kind === 'send' ? step.octets : '')).join(''), 'latin1');
}

async function transcript(dialogue: DialogueFile, cuts: readonly number[]): Promise<string> {
  const submissions: Submission[] = [];
  const running = await startDoor(choicesFor(dialogue, submissions));
  const client = RawClient.open(running.port(dialogue.listener.name));
  try {
    if (dialogue.hello) await greet(client, dialogue);
    else await client.reply();
    const octets = octetsOf(dialogue);
    const places = [...new Set(cuts.map((cut) => cut % (octets.length + 1)))].sort((one, other) => one - other);
    const pieces = [...places, octets.length].map((end, index) => octets.subarray(places[index - 1] ?? 0, end));
    await client.sendPieces(pieces.filter((piece) => piece.length > 0));
    const said = await client.untilEnd();
    // Ids of sessions differ.
    return JSON.stringify([said.replace(/id [0-9a-f]{16}/g, 'id'), submissions.map(bodyOf)]);
  } finally {
    client.destroy();
    await running.door.drain(0);
  }
}

test('any split of the octets gives the same transcript', { timeout: 120_000 }, async () => {
  const wholes = new Map<string, string>();
  const property = fc.asyncProperty(
    fc.constantFrom(...dialogues),
    fc.array(fc.nat(20_000), { maxLength: 24 }),
    async (dialogue, cuts) => {
      const whole = wholes.get(dialogue.name) ?? (await transcript(dialogue, []));
      wholes.set(dialogue.name, whole);
      expect(await transcript(dialogue, cuts)).toBe(whole);
    },
  );
  await fc.assert(property, { numRuns: 150 });
});

test('an octet at a time gives the same transcript', { timeout: 120_000 }, async () => {
  for (const dialogue of dialogues) {
    const octets = octetsOf(dialogue).length;
    if (octets > 400) continue;
    const cuts = Array.from({ length: octets }, (_, index) => index);
    expect(`${dialogue.name}: ${await transcript(dialogue, cuts)}`).toBe(
      `${dialogue.name}: ${await transcript(dialogue, [])}`,
    );
  }
});

// What failures mean: replies of real mail servers, each with the class that is right for it (replies.txt tells their sources).

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bounceRules, classify } from '../../../../src/delivery/feedback/classify/classify.ts';

interface PublishedReply {
  readonly meant: string;
  readonly reply: string;
  readonly source: string;
}

function publishedReplies(): readonly PublishedReply[] {
  const found: PublishedReply[] = [];
  let source = '';
  for (const line of readFileSync(join(import.meta.dirname, 'replies.txt'), 'utf8').split('\n')) {
    if (line.startsWith('= ')) source = line.slice(2);
    const [, meant = '', reply = ''] = /^(hard|soft|policy)\t(.+)$/.exec(line) ?? [];
    if (reply !== '') found.push({ meant, reply, source });
  }
  return found;
}

const replies = publishedReplies();

test('there are some hundred replies of each class, each with its source', () => {
  expect(replies.length).toBeGreaterThanOrEqual(300);
  for (const one of ['hard', 'soft', 'policy'])
    expect(replies.filter(({ meant }) => meant === one).length, one).toBeGreaterThanOrEqual(60);
  expect(replies.filter(({ source }) => !/^https?:\/\/\S+/.test(source))).toEqual([]);
  expect(new Set(replies.map(({ reply }) => reply)).size).toBe(replies.length);
});

describe.each(replies)('$reply', ({ meant, reply }) => {
  test(`is ${meant} in a report`, () => {
    const { class: decided, rule } = classify({ status: undefined, words: reply });
    expect(`${decided} by ${rule}`).toMatch(new RegExp(`^${meant} `));
    expect(classify({ status: '5.0.0', words: reply }).class).toBe(meant);
  });

  test(`is ${meant} at the next hop`, () => {
    // As the SMTP client hands a reply on: the status code apart from the words.
    const [, code, enhanced, text] = /^(\d{3})[- ](?:([245]\.\d+\.\d+) )?(.*)$/.exec(reply) ?? [];
    const { class: decided, rule } = classify({ status: enhanced, words: code ? `${code} ${text}` : reply });
    expect(`${decided} by ${rule}`).toMatch(new RegExp(`^${meant} `));
  });
});

/** What a rule decides on where the published replies have nothing for it alone. */
const bare = [
  ['soft by no-failure', '2.1.5', '250 2.1.5 user unknown to me, but relayed'],
  ['soft by 4.x.x', '4.4.1', 'connection to mx.example.com'],
  ['policy by refused-together', '5.1.1', '550 Refused for 3 recipients at once: user unknown'],
  ['soft by mailbox-full', '5.2.2', ''],
  ['hard by no-such-user', '5.1.1', ''],
  ['hard by mailbox-disabled', '5.2.1', ''],
  ['hard by no-mail-there', '5.1.10', '556 no'],
  ['hard by no-such-domain', '5.1.2', ''],
  ['policy by sender-refused', '5.1.8', ''],
  ['policy by too-large', '5.3.4', ''],
  ['policy by content', '5.6.3', ''],
  ['soft by loop-or-expired', '5.4.7', ''],
  ['policy by security-or-policy', '5.7.1', ''],
  ['hard by words-no-mail-there', undefined, 'Domain example.com does not accept mail (nullMX)'],
  ['soft by words-not-now', undefined, 'retry timeout exceeded'],
  ['soft by undecided', '5.3.0', 'no'],
  ['soft by undecided', undefined, ''],
] as const;

test.each(bare)('%s: %s %s', (decided, status, words) => {
  const { class: found, rule } = classify({ status, words });
  expect(`${found} by ${rule}`).toBe(decided);
});

test('every rule decides on something here', () => {
  const rules = new Set<string>(replies.map(({ reply }) => classify({ status: undefined, words: reply }).rule));
  for (const [decided] of bare) rules.add(decided.replace(/^.* by /, ''));
  expect(Object.keys(bounceRules).filter((name) => !rules.has(name))).toEqual([]);
});

test('a name in the reply is no reason', () => {
  for (const name of ['spam@example.com', 'no-policy@blocked.example.com', 'host spam.example.com[192.0.2.1] said:'])
    expect(classify({ status: '5.1.1', words: `${name} 550 5.1.1 <${name}> unknown` }), name).toMatchObject({
      class: 'hard',
      rule: 'no-such-user',
    });
});

describe('words of blocking, rate, sender, quota and preference outrank a status code that says that nobody is there', () => {
  test.each([
    ['soft', '550 5.1.1 <user@example.com> too many recipients this hour'],
    ['policy', '553 5.1.3 http://www.spamhaus.org/query/bl?ip=192.0.2.1'],
    ['policy', '550 5.1.1 <user@example.com> refused because of the recipient preferences'],
    ['soft', '550 5.2.1 The user is receiving mail at a rate that prevents more from being delivered'],
    ['soft', '550 5.1.2 relay misconfigured, try later'],
    ['soft', '550 5.1.1 The mailbox of this user is full'],
    ['policy', '550 5.1.1 Sender address rejected'],
    ['policy', '550 5.1.1 sender unknown'],
    ['policy', '550 5.1.1 <user@example.com>: Sender unknown'],
    ['policy', '550 5.1.1 <user@example.com>: Sender <news@example.org> is unknown'],
    ['policy', '550 5.1.1 <user@example.com>: unknown sender'],
    ['policy', '550 5.1.1 No such sender here'],
    ['policy', '550 5.1.1 sender not found'],
    ['policy', "550 5.1.1 sender doesn't exist"],
    ['policy', '550 5.1.1 sender user does not exist'],
    ['policy', '550 5.1.1 Sender callout: user unknown'],
    ['policy', '550 5.1.1 Could not complete sender verify callback: user unknown'],
    ['policy', '550 5.1.1 Absenderadresse unbekannt'],
    ['hard', '550 5.1.1 The account does not exist. Every sender should check the address for typos'],
    ['hard', '550 5.1.1 User unknown in virtual mailbox table; sender was told'],
    ['policy', '550 5.1.1 Your IP is on our blocklist'],
  ])('%s: %s', (meant, reply) => {
    const { class: decided, rule } = classify({ status: undefined, words: reply });
    expect(`${decided} by ${rule}`).toMatch(new RegExp(`^${meant} `));
    const { class: reported } = classify({ status: /5\.\d\.\d/.exec(reply)?.[0], words: reply.slice(10) });
    expect(reported).toBe(meant);
  });
});

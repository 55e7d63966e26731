// POST /email/sending/would-pass, as `postern report --with`. For the operator alone: a configuration names files and accounts.

import { Type } from 'typebox';
import type { Clock } from '../../../base/clock.ts';
import { ConfigurationError } from '../../../base/errors.ts';
import { compareJournal, type JudgeKept, type VerdictComparison } from '../../../pipeline/report/rehearse.ts';
import type { Journal } from '../../../spool/journal/journal.ts';
import { component, endpoint, endpointsOf } from '../../http/endpoint.ts';
import { Refusal, refusal } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { closed, readSince } from '../schemas.ts';

/** Messages that are judged for one answer at most, and for how long. */
const mostMessages = 10_000;
const mostMs = 15_000;
/** Octets of a request: a configuration of thousands of accounts. */
const bodyBytes = 1_048_576;
const mostRows = 200;

/** Another configuration that was read. */
export interface OtherConfiguration {
  readonly judge: JudgeKept;
  close(): Promise<void>;
}

/** What the endpoint is made from. */
export interface WouldPassParts {
  readonly journal: Pick<Journal, 'list' | 'content'>;
  /** Reads the text of a configuration. @throws ConfigurationError with a line for each fault */
  readonly readOther: (text: string) => Promise<OtherConfiguration>;
  readonly clock: Clock;
}

const asked = closed({
  config: Type.String({
    minLength: 1,
    description: 'The text of a configuration file. Nothing of it is kept',
    example: 'dataDir: data',
  }),
  account: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'Only mail of this account, by name' }),
  ),
  since: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only from this time on; seven days back where absent' }),
  ),
});

const count = Type.Integer({ minimum: 0 });
const counts = { refused: count, would_pass: count, accepted: count, would_not: count };

/** The answer. */
export const wouldPass = component('WouldPass', {
  ...counts,
  not_kept: Type.Integer({ description: 'Messages of which too little is kept to judge them again' }),
  cut: Type.Boolean({ description: 'There are more messages: the newest were judged, as many as the time allowed' }),
  mailers: Type.Array(
    Type.Object({
      account: Type.String(),
      credential: Type.String(),
      mailer: Type.String(),
      ...counts,
      examples: Type.Array(Type.String(), {
        description: 'Ids in the journal, with the codes of those that would not pass',
      }),
    }),
    { description: 'Those of which something changes, the most changed first' },
  ),
});

/** Lines, and entries that stand on one line, of a configuration at most: reading takes memory and time for each of them. */
const mostEntries = 100_000;

async function otherOf({ readOther }: WouldPassParts, text: string): Promise<OtherConfiguration> {
  const entries = text.match(/[\n\r,{[]|[-?:][ \t]/g)?.length ?? 0;
  if (entries > mostEntries) {
    const message = `The configuration has ${entries} lines and entries, at most ${mostEntries} are read`;
    throw new Refusal([{ token: 'E_VALIDATION_ERROR', message, pointer: '/config' }]);
  }
  try {
    return await readOther(text);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const lines = error.message.split('\n');
    throw new Refusal(lines.map((message) => ({ token: 'E_VALIDATION_ERROR', message, pointer: '/config' })));
  }
}

async function judge(
  parts: WouldPassParts,
  text: string,
  { isGone, ...wanted }: { since: number; account?: string | undefined; isGone: () => boolean },
) {
  const { journal, clock } = parts;
  const other = await otherOf(parts, text);
  const until = clock.monotonic() + mostMs;
  const mayGoOn = (done: number): boolean => done < mostMessages && clock.monotonic() < until && !isGone();
  let comparison: VerdictComparison;
  try {
    comparison = await compareJournal(journal, wanted, { judge: other.judge, mayGoOn });
  } finally {
    await other.close();
  }
  const rows = comparison
    .rows()
    .map(({ wouldPass: would_pass, wouldNot: would_not, ...row }) => ({ ...row, would_pass, would_not }));
  const sum = (key: keyof typeof counts): number => rows.reduce((all, row) => all + row[key], 0);
  return {
    ...{ refused: sum('refused'), would_pass: sum('would_pass') },
    ...{ accepted: sum('accepted'), would_not: sum('would_not') },
    ...{ not_kept: comparison.notKept, cut: comparison.isCut },
    mailers: rows.filter((row) => row.would_pass + row.would_not > 0).slice(0, mostRows),
  };
}

/** The endpoint. It judges for one caller at a time. */
export function wouldPassEndpoint(parts: WouldPassParts): V4Plugin {
  let isJudging = false;
  const judgeAgain = endpoint({
    at: 'POST',
    operationId: 'judgeByConfiguration',
    summary: 'Tell what another configuration would make of the mail in the journal',
    description:
      `What \`postern report --with\` tells, of the newest ${mostMessages.toLocaleString('en')} messages at most and for ` +
      `${mostMs / 1000} seconds at most. One request is judged at a time. Faults of the configuration are told as ` +
      '`postern config check` tells them; keys, certificates and secrets are not looked at.',
    body: asked,
    result: wouldPass,
    reading: { bodyBytes },
    async answer({ body, request }) {
      const since = readSince(body.since, parts.clock);
      if (isJudging) throw refusal('E_RATE_LIMIT_EXCEEDED', 'Another configuration is being judged', 5);
      isJudging = true;
      const { socket } = request.raw;
      // A client that goes ends its side; its connection is closed only behind the answer.
      const isGone = (): boolean => socket.destroyed || socket.readableEnded;
      try {
        return await judge(parts, body.config, { since, account: body.account, isGone });
      } finally {
        isJudging = false;
      }
    },
  });
  return endpointsOf({ path: '/email/sending/would-pass', tag: 'Journal', reads: 'admin' }, parts, [judgeAgain]);
}

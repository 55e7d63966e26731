// GET .../email/sending/refusals: what was refused, in groups with the cure of each, as `postern report` tells it (D53a).

import { Type } from 'typebox';
import type { Account } from '../../../accounts/account.ts';
import type { Clock } from '../../../base/clock.ts';
import { type CredentialReport, countedParts } from '../../../pipeline/report/findings.ts';
import { findingsOfEvents } from '../../../pipeline/report/read-events.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { endpointsOfBoth } from '../../http/endpoint.ts';
import { refusal, succeed } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { createAccountQueues } from '../events/account-queues.ts';
import { isoTime, isoTimeOrNull, queryOf, readTime, textOrNull, timeOrNull, timeParameter } from '../schemas.ts';
import { cureJson } from './cure-json.ts';
import { journalNote } from './journal-endpoints.ts';
import { cure } from './schemas.ts';

/** How far back is looked where nobody says, as `postern report` does, and how many events are read at most. */
const defaultSpanMs = 7 * 86_400_000;
const mostEvents = 100_000;
/** Groups of one answer at most. */
const mostGroups = 500;

/** What the endpoints are made from. */
export interface RefusalParts {
  readonly events: Pick<EventStore, 'read' | 'newest'>;
  readonly account: (name: string) => Account | undefined;
  readonly clock: Clock;
  /** `journal.enabled`. */
  readonly isOn: boolean;
}

const group = Type.Object(
  {
    account: Type.String(),
    credential: Type.String(),
    mailer: Type.String({ description: 'How the program names itself; else its HELO' }),
    field: textOrNull(),
    code: Type.String(),
    message: Type.String({ description: 'Of the first message of the group' }),
    count: Type.Integer(),
    times: Type.Array(Type.Integer(), {
      description: `How many there were in each of ${countedParts} equal parts of the time, the oldest first`,
    }),
    first_at: timeOrNull,
    last_at: timeOrNull,
    example: textOrNull('The last message of the group in the journal'),
    cured: Type.Boolean({ description: 'The configuration has the cure by now' }),
    cure,
  },
  { title: 'RefusalGroup' },
);

const parameters = queryOf({
  since: timeParameter('Only from this time on (RFC 3339); seven days back where absent'),
  credential: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Name of a credential' })),
});

function groupsOf({ account, credential, mailers, settings }: CredentialReport, owner: Account | undefined) {
  const present = owner?.credentials.get(credential);
  return mailers.flatMap(({ mailer, problems }) =>
    problems.map(({ code, field, message, count, times, firstSeen, lastSeen, examples, isCured, cure: found }) => ({
      ...{ account, credential, mailer, field: field ?? null, code, message, count, times: times ?? [] },
      first_at: isoTimeOrNull(firstSeen),
      last_at: isoTimeOrNull(lastSeen),
      example: examples.at(-1) ?? null,
      cured: isCured,
      cure: cureJson(found, { name: credential, together: isCured ? [] : settings, present }),
    })),
  );
}

/** The endpoints of refusals in groups, the most frequent first. */
export function refusalEndpoints({ events, account, clock, isOn }: RefusalParts): V4Plugin {
  const inAccountQueue = createAccountQueues();
  return (app) =>
    endpointsOfBoth(app, { path: '/email/sending/refusals', tag: 'Journal' }, (register) =>
      register(
        'GET',
        {
          operationId: 'listRefusals',
          summary: 'Tell what was refused, in groups by credential, program, header and code, with the cure of each',
          description:
            `What \`postern report\` tells, of the last ${mostEvents} events at most. A refused recipient counts by itself. The cures of ` +
            'one credential have the same lines, which cure all its groups that settings can cure.',
          query: parameters,
          result: Type.Array(group),
        },
        async ({ of, query: asked, reply }) => {
          const since = asked.since === undefined ? clock.now() - defaultSpanMs : readTime(asked.since, 'since');
          if (typeof since === 'object') throw refusal('E_VALIDATION_ERROR', since.message);
          const query = {
            ...{ since, account: of, credential: asked.credential, most: mostEvents, countUntil: clock.now() },
            sendingDomains: (name: string) => account(name)?.sendingDomains.map((domain) => domain.name) ?? [],
          };
          const findings = await inAccountQueue(of ?? '*', () => findingsOfEvents(events, query));
          const groups = findings
            .report((name, credential) => account(name)?.credentials.get(credential))
            .flatMap((report) => groupsOf(report, account(report.account)))
            .toSorted((one, two) => two.count - one.count);
          const result_info = { count: groups.length, since: isoTime(since) };
          return succeed(reply, groups.slice(0, mostGroups), { result_info, ...journalNote(isOn) });
        },
      ),
    );
}

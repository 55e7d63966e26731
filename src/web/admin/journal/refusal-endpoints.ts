// GET .../email/sending/refusals: what was refused, in groups with the cure of each, as `postern report` tells it (D53a).

import { type Static, Type } from 'typebox';
import { type Account, hasScope } from '../../../accounts/account.ts';
import type { Clock } from '../../../base/clock.ts';
import { oncePer } from '../../../base/once-per.ts';
import { type CredentialReport, countedParts } from '../../../pipeline/report/findings.ts';
import { findingsOfEvents } from '../../../pipeline/report/read-events.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { component, endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import { succeed } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { closed, isoTime, isoTimeOrNull, readSince, textOrNull, timeOrNull, timeParameter } from '../schemas.ts';
import { cureJson } from './entry-json.ts';
import { journalNote } from './journal-endpoints.ts';
import { cure } from './schemas.ts';

const mostEvents = 100_000;
const mostGroups = 500;

/** A change of the configuration file that brings in the lines which a credential lacks. */
export type FileChange = NonNullable<Static<typeof refusalGroup>['change']>;

/** Finds the change of a credential; undefined where there is nothing to change, or no change of the text alone does it. */
export type FindFileChange = (
  report: Pick<CredentialReport, 'account' | 'credential' | 'proposal'>,
) => Promise<FileChange | undefined>;

interface RefusalParts {
  readonly events: Pick<EventStore, 'read' | 'newest'>;
  readonly account: (name: string) => Account | undefined;
  readonly clock: Clock;
  /** Reads the configuration file and gives what finds changes of it; absent: there is no file. */
  readonly fileChanges?: (() => FindFileChange) | undefined;
  /** `journal.enabled`. */
  readonly isOn: boolean;
}

/** A group in answers. */
export const refusalGroup = component('RefusalGroup', {
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
  change: Type.Optional(
    Type.Object(
      {
        file: Type.String(),
        line: Type.Integer({ description: 'The first line that is replaced, or that new lines stand behind' }),
        diff: Type.String({ description: 'A unified diff' }),
      },
      {
        title: 'FileChange',
        description:
          'Only for `admin`: the change of the configuration file that brings in the lines of the cure, where a change of its text ' +
          'alone does it. It is the same for all groups of one credential, and the configuration is valid with it.',
      },
    ),
  ),
});

const parameters = closed({
  since: timeParameter('Only from this time on (RFC 3339); seven days back where absent'),
  credential: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Name of a credential' })),
});

function causesOf(reports: readonly CredentialReport[]) {
  return reports
    .flatMap((report) =>
      report.mailers.flatMap(({ mailer, problems }) => problems.map((problem) => ({ report, mailer, problem }))),
    )
    .toSorted((one, two) => two.problem.count - one.problem.count);
}

function groupOf({ report, mailer, problem }: ReturnType<typeof causesOf>[number], owner: Account | undefined) {
  const { account, credential, settings } = report;
  const { code, field, message, count, times, firstSeen, lastSeen, examples, isCured, cure: found } = problem;
  const present = owner?.credentials.get(credential);
  return {
    ...{ account, credential, mailer, field: field ?? null, code, message, count, times: times ?? [] },
    first_at: isoTimeOrNull(firstSeen),
    last_at: isoTimeOrNull(lastSeen),
    example: examples.at(-1) ?? null,
    cured: isCured,
    cure: cureJson(found, { name: credential, together: isCured ? [] : settings, present }),
  };
}

const listRefusals = endpoint({
  at: 'GET',
  operationId: 'listRefusals',
  summary: 'Tell what was refused, in groups by credential, program, header and code, with the cure of each',
  description:
    `What \`postern report\` tells, of the last ${mostEvents} events at most. A refused recipient counts by itself. The cures of ` +
    'one credential have the same lines, which cure all its groups that settings can cure.',
  query: parameters,
  result: Type.Array(refusalGroup),
  async answer({ of, query: asked, credential: caller, inTurn, reply }, parts: RefusalParts) {
    const { events, account, clock, fileChanges, isOn } = parts;
    const since = readSince(asked.since, clock);
    const query = {
      ...{ since, account: of, credential: asked.credential, most: mostEvents, countUntil: clock.now() },
      sendingDomains: (name: string) => account(name)?.sendingDomains.map((domain) => domain.name) ?? [],
    };
    const findings = await inTurn(() => findingsOfEvents(events, query));
    const causes = causesOf(findings.report((name, credential) => account(name)?.credentials.get(credential)));
    const find = hasScope(caller, 'admin') && fileChanges ? oncePer(fileChanges()) : undefined;
    const groups = [];
    for (const cause of causes.slice(0, mostGroups)) {
      const { report, problem } = cause;
      const isToDo = problem.cure.kind === 'config' && !problem.isCured;
      const change = isToDo ? await find?.(report) : undefined;
      groups.push({ ...groupOf(cause, account(report.account)), ...(change ? { change } : {}) });
    }
    const result_info = { count: causes.length, since: isoTime(since) };
    return succeed(reply, groups, { result_info, ...journalNote(isOn) });
  },
});

/** The endpoints of refusals in groups, the most frequent first. */
export function refusalEndpoints(parts: RefusalParts): V4Plugin {
  return endpointsOfBoth({ path: '/email/sending/refusals', tag: 'Journal' }, parts, [listRefusals]);
}

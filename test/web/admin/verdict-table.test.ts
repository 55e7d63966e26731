// The table of verdicts that the API makes from an entry of the journal.

import { expect, test } from 'vitest';
import { verdictTable } from '../../../src/web/admin/journal/entry-json.ts';

test('the lines that cure one reason of a message cure all that settings can cure, so that whoever copies them copies once', () => {
  const reasons = [
    {
      code: 'E_HEADER_VALUE_INVALID',
      message: 'Precedence must be one of bulk, list, junk; got "urgent"',
      field: 'Precedence',
    },
    { code: 'E_HEADER_NOT_ALLOWED', message: 'User-Agent is not on the allowlist', field: 'User-Agent' },
    { code: 'E_FIELD_MISSING', message: 'Subject is missing' },
  ];
  const { rows, reasons: cured } = verdictTable({
    entry: {
      ...{ seq: 1, id: 'x', at: 0, account: 'dev', outcome: 'refused' },
      facts: { recipients: [], count: 1, credential: 'cron' },
      more: { session: 's', reasons, names: 'Precedence\nUser-Agent', verdicts: 'xx' },
    },
    content: undefined,
    credential: undefined,
    sendingDomains: [],
  });
  const yaml = 'strip: [User-Agent]\nstripInvalid: [Precedence]';
  expect(rows.map(({ cure }) => cure?.yaml)).toEqual([yaml, yaml]);
  expect(cured.map(({ cure }) => cure.yaml)).toEqual([yaml, yaml, undefined]);
  expect(cured[0]?.cure.text).toMatch(
    /at credential "cron", and run postern reload\. In place of that the program can be changed\. Correct it: /,
  );
});

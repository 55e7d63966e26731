import { describe, expect, test } from 'vitest';
import { readAttempt, sampleMessage, sampleRequest } from '../../../../src/web/console/web/text/attempt.ts';
import { journalQuery } from '../../../../src/web/console/web/text/filters.ts';
import { fitsFilters } from '../../../../src/web/console/web/text/row-order.ts';

const typed = (form: string, text: string) => readAttempt(JSON.stringify({ form, text }));

describe('what is tried', () => {
  test('a message alone is judged without an envelope, and would be sent to whom its fields name', () => {
    const text =
      'From: "A, B" <a@example.com>\nTo: x@example.net,\n "Y, Z" <y@example.net>\nCC: x@example.net\n\nTo: z@example.net\n';
    expect(typed('message', text)).toEqual({
      ok: true,
      judge: { raw: text.replaceAll('\n', '\r\n') },
      send: {
        from: 'a@example.com',
        recipients: ['x@example.net', 'y@example.net'],
        mime_message: text.replaceAll('\n', '\r\n'),
      },
    });
  });

  test('a message without a recipient is judged, and cannot be sent', () => {
    expect(typed('message', 'Subject: x\n\ny')).toEqual({ ok: true, judge: { raw: 'Subject: x\r\n\r\ny' } });
  });

  test('a name in quotation marks that never ends is gone through once, however long it is', () => {
    for (const end of ['', '\\', '\\\r'])
      expect(typed('message', `To: ${'"\\'.repeat(200_000)}${end}\n\nhi`)).not.toHaveProperty('send');
    expect(typed('message', 'To: "a\\"b, c" <x@example.net>, "y <z@example.net>\n\n')).toMatchObject({
      send: { recipients: ['x@example.net'] },
    });
  });

  test('a request body is JSON', () => {
    expect(typed('request', sampleRequest)).toMatchObject({ ok: true, judge: { to: 'you@example.net' } });
    expect(typed('request', '{')).toMatchObject({ ok: false, fault: expect.stringContaining('no JSON yet') });
  });

  test('nothing typed is no fault, and the example is a whole message', () => {
    expect(typed('message', ' \n')).toEqual({ ok: false });
    expect(typed('message', sampleMessage)).toMatchObject({ send: { recipients: ['you@example.net'] } });
  });
});

describe('rows that come live', () => {
  const row = {
    ...{ outcome: 'refused', credential: 'cron', client: '192.0.2.7', subject: 'Your Größe: order 4711' },
    ...{ sender: 'shop@example.com', recipients: ['ana@example.net'], codes: ['E_A', 'E_B'], fields: ['User-Agent'] },
  };

  test.each([
    [{}, true],
    [{ outcome: 'refused', credential: 'cron', client: '192.0.2.7', code: 'E_B', field: 'user-agent' }, true],
    [{ outcome: 'accepted' }, false],
    [{ credential: 'shop' }, false],
    [{ client: '192.0.2.8' }, false],
    [{ code: 'E_C' }, false],
    [{ field: 'User' }, false],
    [{ q: 'ord GRÖ' }, true],
    [{ q: 'ana@example' }, true],
    [{ q: 'rder' }, false],
    [{ span: '1h', until: '2026-11-22T12:00:00Z' }, true],
  ])('%j: %s', (filters, fits) => {
    expect(fitsFilters(row, filters)).toBe(fits);
  });
});

test('the filters of the page become the query of the journal, a span from a whole minute on', () => {
  const now = Date.parse('2026-11-22T12:00:30Z');
  expect(journalQuery({}, now, 50)).toBe('?per_page=50');
  expect(journalQuery({ q: 'a b', span: '1h', until: '2026-11-22T11:59:00Z' }, now, 50)).toBe(
    '?per_page=50&search=a+b&since=2026-11-22T11%3A00%3A00.000Z&until=2026-11-22T11%3A59%3A00.000Z',
  );
});

import { expect, test } from 'vitest';
import { writeField } from '../../src/mail/write-field.ts';
import { compose, writeLongFields } from '../../src/pipeline/compose/compose.ts';
import { longFieldLength } from '../../src/pipeline/compose/field-text.ts';
import { planBody } from '../../src/pipeline/compose/plan-body.ts';
import { createFieldWriter } from '../../src/pipeline/field-writer.ts';
import { checkedOf, messageUuid, noon, platform, submissionOf } from '../support/checked.ts';

test('its thread writes what writeField writes, in the order of asking', async () => {
  const writeLong = createFieldWriter();
  const words = 'Größe und mehr '.repeat(2000).trim();
  const addresses = '"Jörg" <j@example.net>, '.repeat(1000).slice(0, -2);
  const lines = await Promise.all([
    writeLong('Subject', words, 'text'),
    writeLong('To', addresses, 'addresses'),
    writeLong('X-Short', 'ü', 'text'),
  ]);
  expect(lines).toEqual([
    writeField('Subject', words, 'text'),
    writeField('To', addresses, 'addresses'),
    writeField('X-Short', 'ü', 'text'),
  ]);
});

test('long fields of a message, and of a message in it, are written elsewhere and are the same', async () => {
  const asked: string[] = [];
  const writeLong = (...[name, text, kind]: Parameters<typeof writeField>): Promise<string> => {
    expect(text.length).toBeGreaterThan(longFieldLength);
    asked.push(name);
    return Promise.resolve(writeField(name, text, kind));
  };
  const long = 'Größe '.repeat(longFieldLength / 6 + 10).trim();
  const submission = submissionOf(
    `From: a@example.com\nSubject: ${long}\nTo: b@example.net\nContent-Type: message/rfc822\n\nComments: ${long}\nSubject: für\n\nx\n`,
  );
  const checked = checkedOf(submission);
  const context = { id: messageUuid, nowMs: noon, hostname: 'mx.platform.example', platform };
  const [here, elsewhere] = [await planBody(submission), await planBody(submission, { writeLong })];
  if (!here.ok || !elsewhere.ok) throw new Error('The body was refused');
  const written = await writeLongFields(checked, elsewhere.plan, writeLong);
  expect(asked).toEqual(['Comments', 'Subject']);
  expect(elsewhere.plan.body.equals(here.plan.body)).toBe(true);
  expect(compose(checked, elsewhere.plan, { ...context, written }).fields).toEqual(
    compose(checked, here.plan, context).fields,
  );
});

// A refusal by REST leads to the rule of each header that it is about.

import { expect, test } from 'vitest';
import { startRest } from '../../support/rest-gateway.ts';

const message = { from: 'a@example.com', to: 'b@partner.test', subject: 's', text: 't' };
const headers = { 'User-Agent': 'x', 'X-Empty': '', 'a b': 'x', Precedence: 'urgent' };
const raw = ['From: a@example.com', 'User-Agent: x', 'X-Empty:', 'a b: x', 'Precedence: urgent', '', 'Hi', ''];
const requests = [
  ['send', { ...message, headers }],
  ['validate', { ...message, headers }],
  ['send_raw', { from: 'a@example.com', recipients: ['b@partner.test'], mime_message: raw.join('\r\n') }],
] as const;

interface Told {
  readonly message: string;
  readonly rule_url?: string;
}

test.each(requests)('%s links to the page of each header that can have one', async (endpoint, body) => {
  const rest = await startRest({ headersUrl: 'https://gateway.test/headers' });
  const { json } = await rest.post(endpoint, body);
  const { errors } = (endpoint === 'validate' ? json.result : json) as { readonly errors: readonly Told[] };
  expect(errors.map(({ message: told, rule_url }) => [told.split(':', 1)[0], rule_url])).toEqual([
    ['E_HEADER_NOT_ALLOWED', 'https://gateway.test/headers/User-Agent'],
    ['E_HEADER_VALUE_INVALID', 'https://gateway.test/headers/X-Empty'],
    ['E_HEADER_NAME_INVALID', undefined],
    ['E_HEADER_VALUE_INVALID', 'https://gateway.test/headers/Precedence'],
  ]);
});

test('where nobody has said where the pages are, there is no link, and what is no header has none', async () => {
  const unnamed = await startRest();
  const { json } = await unnamed.post('send', { ...message, headers });
  expect(json.errors[0]).not.toHaveProperty('rule_url');
  const named = await startRest({ headersUrl: 'https://gateway.test/headers' });
  const { json: other } = await named.post('send', { ...message, to: 'nobody' });
  expect(other.errors[0]).not.toHaveProperty('rule_url');
});

// The configuration as the console shows it has no secret, wherever one may stand.

import { expect, test } from 'vitest';
import { shownConfig } from '../../../src/app/wiring/console/shown-config.ts';
import { loadYaml } from '../../support/scratch.ts';

const yaml = `
database: { url: "postgres://postern@db.example/postern?sslmode=verify-full", passwordEnv: DB }
http: { metricsTokenEnv: METRICS }
routes:
  - { name: out, type: smarthost, url: "smtps://relay.example:465", auth: { user: me, passwordEnv: RELAY } }
accounts:
  - name: dev
    id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
    email: a@example.com
    globalKeyEnv: GLOBAL
    sendingDomains: [{ name: example.com }]
    credentials: [{ name: default, tokenEnv: TOKEN }, { name: hashed, tokenSha256: "${'ab'.repeat(32)}" }]
    webhooks: [{ name: w, url: "https://hook.example/x", secretEnv: HOOK }]
    customErrors: { errorPage: { html: "${'long '.repeat(1000)}" } }
`;

test('no secret is shown, and no text of any length', () => {
  const env = Object.fromEntries(
    ['DB', 'METRICS', 'RELAY', 'GLOBAL', 'TOKEN'].map((name) => [name, `secret-of-${name}-0123456789`]),
  );
  const hook = `whsec_${Buffer.alloc(32, 'h').toString('base64')}`;
  const text = JSON.stringify(shownConfig(loadYaml(yaml, { ...env, HOOK: hook }), true));
  expect(text).toContain('relay.example');
  expect(text).toContain('[hidden]');
  expect(text).not.toContain('secret-of');
  expect(text).not.toContain(hook.slice(6));
  expect(text).not.toContain('ab'.repeat(32));
  expect(text).not.toContain('long '.repeat(500));
});

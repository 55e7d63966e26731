// The change that brings proposed lines into the file: its form and comments stay, and what is wrong or elsewhere is not touched.

import { expect, test } from 'vitest';
import { cureMerger } from '../../../src/app/config/merged-cure.ts';
import type { CredentialLines } from '../../../src/pipeline/report/settings.ts';

function change(credentials: string, lines: CredentialLines, credential = 'cron') {
  const text = `# Ours
accounts:
  - id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
    name: dev      # of development
    sendingDomains: [{ name: example.com }]
    credentials:
${credentials}
log: { level: info }
`;
  return cureMerger({ text, env: {}, cwd: '/' })({ account: 'dev', credential }, lines);
}

test('a flow mapping and a block of lists each keep their form and comments', () => {
  const flow = change('      - { name: cron, strip: [X-Old] }   # keep me', {
    strip: ['User-Agent', 'X-Old'],
    trustedHop: true,
  });
  expect(flow?.line).toBe(7);
  expect(flow?.after).toContain(
    '\n      - { name: cron, strip: [X-Old, User-Agent], trustedHop: true }   # keep me\nlog:',
  );
  const block = change(
    '      - name: cron\n        strip:\n          - X-Old   # since 2019\n          # the end\n        stripEmpty: true\n      - name: other',
    { strip: ['User-Agent', 'X-Old'], stripEmpty: true, senders: { '*@box.internal': '*@example.com' } },
  );
  expect(block?.diff).toBe(
    [
      '@@ -7,6 +7,8 @@',
      '       - name: cron',
      '         strip:',
      '           - X-Old   # since 2019',
      '+          - User-Agent',
      '           # the end',
      '         stripEmpty: true',
      '+        senders: { "*@box.internal": "*@example.com" }',
      '       - name: other',
      '',
    ].join('\n'),
  );
});

test('a map of senders grows behind its last line, and a list of which some goes is replaced', () => {
  const grown = change('      - name: cron\n        senders:\n          "root@*": ops@example.com # ours', {
    senders: { 'root@*': 'ops@example.com', '*@box.internal': '*@example.com' },
  });
  expect(grown?.after).toContain(
    '          "root@*": ops@example.com # ours\n          "*@box.internal": "*@example.com"\nlog:',
  );
  const replaced = change('      - name: cron\n        strip:\n          - X-A\n          - X-B', {
    strip: ['X-B', 'X-C'],
  });
  expect(replaced?.after).toContain('      - name: cron\n        strip: [X-B, X-C]\nlog:');
});

test.each([
  [
    'an alias',
    '      - &one { name: other, strip: &list [X-Old] }\n      - { name: cron, strip: *list }',
    ['X-Old', 'X-New'],
    'other',
  ],
  ['no such credential', '      - { name: other }', ['X-New'], 'cron'],
  ['nothing to change', '      - { name: cron, strip: [X-Old] }', ['X-Old'], 'cron'],
  ['lines that are refused', '      - { name: cron }', ['From'], 'cron'],
])('no change is told: %s', (_, credentials, strip, credential) => {
  expect(change(credentials, { strip }, credential)).toBeUndefined();
});

// The rules for old servers: what they say, and that nothing of a stranger's text becomes a rule of another meaning.

import { expect, test } from 'vitest';
import { kitFormats, kitLines } from '../../../src/pipeline/report/kits.ts';
import { estateReasons, reportsOf } from '../../support/kit-reports.ts';

const example = (): string => 'example.com';

test.each([
  [
    'postfix',
    [
      '# main.cf, of what hands mail to Postern',
      'smtp_header_checks = regexp:/etc/postfix/postern_headers',
      'smtp_generic_maps = texthash:/etc/postfix/postern_senders',
      '',
      '# /etc/postfix/postern_headers',
      '/^User-Agent:/ IGNORE',
      '/^X-Old:[[:space:]]*$/ IGNORE',
      '',
      '# /etc/postfix/postern_senders',
      '@box.internal @example.com',
    ],
  ],
  [
    'exim',
    [
      '# in the transport that hands mail to Postern',
      '  headers_remove = User-Agent : ${if eq{$h_X-Old::}{}{X-Old}}',
      '  headers_rewrite = *@box.internal $1@example.com fs',
      '  return_path = ${if eqi{$sender_address_domain}{box.internal}{$sender_address_local_part@example.com}{$return_path}}',
    ],
  ],
  [
    'exchange',
    [
      '# in the Exchange Management Shell',
      'New-TransportRule -Name "Postern: remove User-Agent" -SentToScope NotInOrganization -RemoveHeader "User-Agent"',
      '# on an Edge Transport server',
      'New-AddressRewriteEntry -Name "Postern: box.internal" -InternalAddress "box.internal" -ExternalAddress "example.com" -OutboundOnly $true',
    ],
  ],
] as const)('%s', (format, lines) => {
  expect(kitLines(format, reportsOf(estateReasons), example)).toEqual(lines);
});

const hostileNames = [
  '.*',
  'a/ REJECT',
  'X-$(id)',
  'X-${run{id}}',
  'X"; rm',
  'X:Y',
  'X|From',
  'X-a\nb',
  'X`n',
  '*',
  "X'",
  'Fröm',
];
const hostileDomains = [
  '${run{/bin/id}}',
  '$(id)',
  'a"b.example',
  'a`b.example',
  'x}{y',
  '*',
  '@',
  'a;b',
  '-a.example',
  'a/b',
];

test.each(kitFormats)(
  '%s: names and domains that mean something to the server are counted, and written nowhere',
  (format) => {
    const names = hostileNames.map((field) => ({
      code: 'E_HEADER_NOT_ALLOWED',
      field,
      message: `${field} is not on the allowlist`,
    }));
    const domains = hostileDomains.map((domain) => ({
      code: 'E_SENDER_NOT_VERIFIED',
      message: `${domain} is no sending domain of account dev`,
    }));
    const text = kitLines(format, reportsOf([...names, ...domains]), example);
    const bare = kitLines(format, [], example);
    expect(text.slice(0, bare.length)).toEqual(bare);
    expect(text.slice(bare.length)).toEqual(['', expect.stringMatching(/^# \d+ kinds of refusals have no rule here/)]);
  },
);

test('an account without a sending domain has no senders rewritten', () => {
  expect(kitLines('postfix', reportsOf(estateReasons), () => undefined).join('\n')).not.toContain('box.internal');
});

// The rules for old servers: what they say, and that nothing of a stranger's text becomes a rule of another meaning.

import { expect, test } from 'vitest';
import { kitFormats, kitLines } from '../../../src/pipeline/report/kits.ts';
import { estateReasons, reportsOf, uncuredReasons, valueReasons } from '../../support/kit-reports.ts';

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
      '',
      '# 1 kinds of refusals have no rule here: postern report tells their cures',
      '# stripEmpty of X-Old: no condition of a transport rule is known to match a header without a value',
    ],
  ],
] as const)('%s', (format, lines) => {
  expect(kitLines(format, reportsOf(estateReasons), example)).toEqual(lines);
});

const notAnywhere = [
  '# stripInvalid of X-Bell: no rule looks for such characters',
  '# trustedHop: a server that hands mail on writes Received itself',
];

test.each([
  [
    'postfix',
    ['/^Precedence:[[:space:]]*(bulk|list|junk)[[:space:]]*$/ DUNNO', '/^Precedence:/ IGNORE'],
    [
      '# 5 kinds of refusals have no rule here: postern report tells their cures',
      '# stripInvalid of X-Long: header_checks sees a value folded and encoded, which is longer',
      '# keepFirst of X-Twice: header_checks looks at one header at a time',
    ],
  ],
  [
    'exim',
    [
      '  headers_remove = ${if !inlisti{$h_Precedence::}{bulk::list::junk}{Precedence}} : ' +
        '${if >{${strlen::${sg{$h_X-Long::}{\\n}{}}}}{2048}{X-Long}} : ${if >{${listcount::$lh_X-Twice::}}{1}{X-Twice}}',
      '  headers_add = ${if >{${listcount:$lh_X-Twice:}}{1}{X-Twice: ${listextract{1}{$lh_X-Twice:}}}}',
    ],
    ['# 3 kinds of refusals have no rule here: postern report tells their cures'],
  ],
  [
    'exchange',
    [
      'New-TransportRule -Name "Postern: remove Precedence" -SentToScope NotInOrganization -RemoveHeader "Precedence" ' +
        `-ExceptIfHeaderMatchesMessageHeader "Precedence" -ExceptIfHeaderMatchesPatterns '^(bulk|list|junk)$'`,
    ],
    [
      '# 5 kinds of refusals have no rule here: postern report tells their cures',
      '# stripInvalid of X-Long: no condition of a transport rule is about the length of a value',
      '# keepFirst of X-Twice: a transport rule removes every header of a name',
    ],
  ],
] as const)('%s has rules for values where it can say them, and tells what it cannot', (format, rules, remarks) => {
  const lines = kitLines(format, reportsOf([...valueReasons, ...uncuredReasons]), example);
  const bare = kitLines(format, [], example);
  expect(lines.filter((line) => line !== '' && !bare.includes(line))).toEqual([...rules, ...remarks, ...notAnywhere]);
});

test('a header that goes anyhow has no further rule', () => {
  const twice = [{ code: 'E_HEADER_NOT_ALLOWED', field: 'X-TWICE', message: 'X-TWICE is not on the allowlist' }];
  const lines = kitLines('exim', reportsOf([...valueReasons.slice(2), ...twice]), example);
  expect(lines.slice(1)).toEqual(['  headers_remove = X-TWICE']);
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

test.each(kitFormats)('%s: no domain that somebody owns is rewritten, since its recipients could be, too', (format) => {
  const reasons = ['kunde-beispiel.de', 'mail.partner.co.uk', 'com'].map((domain) => ({
    code: 'E_SENDER_NOT_VERIFIED',
    field: 'From',
    message: `${domain} (domain of From) is not a sending domain of account dev`,
  }));
  expect(kitLines(format, reportsOf(reasons), example)).toEqual([
    ...kitLines(format, [], example),
    '',
    expect.stringMatching(/^# 3 kinds of refusals have no rule here/),
  ]);
});

test('an account without a sending domain has no senders rewritten', () => {
  expect(kitLines('postfix', reportsOf(estateReasons), () => undefined).join('\n')).not.toContain('box.internal');
});

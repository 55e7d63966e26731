// Mail for the tests of the console: what a person would send, what is refused, and what wants to break the page.

import { runProgram } from '../system/programs.ts';
import type { PosternProcess } from './postern-process.ts';
import { testToken } from './postern-process.ts';

/** Sends a message by swaks. @returns the last reply after the final dot */
export async function swaks(postern: PosternProcess, options: readonly string[]): Promise<string> {
  const { output } = await runProgram('swaks', [
    ...['--server', `127.0.0.1:${postern.ports['submission']}`, '--tls', '--auth', 'PLAIN', '--auth-user', 'api_token'],
    ...['--auth-password', testToken, '--from', 'shop@example.com', '--to', 'you@example.net', ...options],
  ]);
  return (
    [...output.matchAll(/^<[-~*][ *] +(.*)$/gm)]
      .map(([, line = '']) => line)
      .findLast((line) => /^(?!221)[245]\d\d/.test(line)) ?? output
  );
}

/** Sends a message by REST. @returns the status */
export async function sendByRest(origin: string, body: object): Promise<number> {
  const answer = await fetch(`${origin}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return answer.status;
}

const attack = '<script>document.title="taken"</script><img src=x onerror=alert(1)>';
const html = `<html><head><base href="http://evil.invalid/"><meta http-equiv="refresh" content="0;url=http://evil.invalid/r">
<link rel="stylesheet" href="http://evil.invalid/s.css"><link rel="preconnect" href="http://evil.invalid"><style>@import url(http://evil.invalid/i.css);
body{background:url(http://evil.invalid/b.png)}</style></head><body onload="alert(2)" background="http://evil.invalid/bg.png">
<p id="seen" style="color:#a33;background-image:url(http://evil.invalid/p.png)">A harmless sentence.</p>
<script>alert(3);fetch('http://evil.invalid/f')</script><img src="http://evil.invalid/pixel.gif" onerror="alert(4)" alt="Logo">
<svg onload="alert(5)"><image href="http://evil.invalid/v.png"/><script>alert(6)</script></svg>
<a href="javascript:alert(7)" id="link">Press me</a> <a href="data:text/html,<script>alert(8)</script>">Or me</a>
<iframe src="http://evil.invalid/frame"></iframe><object data="http://evil.invalid/o"></object><embed src="http://evil.invalid/e">
<video src="http://evil.invalid/m.mp4" autoplay poster="http://evil.invalid/poster.png"></video>
<form action="http://evil.invalid/form"><input name="a" autofocus onfocus="alert(9)"><button>Go</button></form>
<math><mtext><table><mglyph><style><img src=x onerror=alert(10)></style></mglyph></table></mtext></math>
<div style="position:fixed;inset:0;width:99999px">${'wide'.repeat(2000)}</div></body></html>`;

/** A message that wants to run, load and cover whatever it can. */
export function hostileMessage(): string {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(11)"><script>alert(12)</script></svg>';
  return [
    `From: "${attack.replaceAll('"', "'")}" <shop@example.com>`,
    'To: you@example.net',
    `Subject: ${attack} =?utf-8?B?${Buffer.from('\u202egpj.exe\u2066').toString('base64')}?=`,
    `X-${'N'.repeat(90)}: ${'v'.repeat(900)}`,
    `X-Attack: ${attack} javascript:alert(1)`,
    `X-Bidi: =?utf-8?B?${Buffer.from('abc\u202edef\u200b').toString('base64')}?=`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: multipart/alternative; boundary=c',
    '',
    '--c',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'L'.repeat(120_000),
    '--c',
    'Content-Type: text/html; charset=utf-8',
    '',
    html,
    '--c--',
    '--b',
    `Content-Type: image/svg+xml; name="${attack.replaceAll('"', "'")}.svg"`,
    `Content-Disposition: attachment; filename="=?utf-8?B?${Buffer.from('invoice\u202efdp.svg').toString('base64')}?="`,
    '',
    svg,
    '--b--',
    '',
  ].join('\r\n');
}

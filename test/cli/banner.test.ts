// Where the banner leads who tries the HTTP interface.

import { describe, expect, test } from 'vitest';
import type { Listening } from '../../src/app/wiring/addresses.ts';
import { renderBanner } from '../../src/cli/banner.ts';

const at = (name: string, port: number, host = '127.0.0.1'): Listening => ({ name, host, port });

function banner(...listening: readonly Listening[]): string {
  return renderBanner({
    token: 'pt_x',
    account: 'dev',
    domain: 'example.com',
    listening,
    listenerName: 'submission',
    consoleText: '',
    certificateFile: '/certs/fullchain.pem',
  });
}

describe('the HTTP interface', () => {
  test('at the HTTP listener, also where a listener of mail has the name of the other one', () => {
    const text = banner(at('submission', 2587), at('admin', 2588), at('http', 8080), at('https', 8443));
    expect(text).toContain("curl 'http://127.0.0.1:8080/client/v4/");
    expect(text).not.toContain('adminListen');
    expect(text).not.toContain('2588');
  });

  test('at its own listener where it has one', () => {
    const text = banner(at('submission', 2587), at('admin', 2588), at('http', 8080), at('admin', 9090, '0.0.0.0'));
    expect(text).toContain("curl 'http://127.0.0.1:9090/client/v4/");
    expect(text).toContain('are at http://127.0.0.1:9090/ alone (http.adminListen)');
    expect(banner(at('submission', 2587), at('http', 8080), at('admin', 9090, '::1'))).toContain('http://[::1]:9090/');
  });
});

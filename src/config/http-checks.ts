// Checks of HTTP that the schema cannot express: no two listeners share an address, and a secret is named in one place only.

import { type CompleteContents, http as defaults } from './defaults.ts';
import { type ConfigFault, quote } from './fault.ts';

/** The faults of `http`: an admin listener where another one is, and a token for /metrics that is named twice. */
export function httpFaults({ http }: CompleteContents): ConfigFault[] {
  const { adminListen = '', metricsTokenEnv, metricsTokenFile } = http;
  const others = { listen: http.listen ?? defaults.listen, tlsListen: http.tlsListen ?? defaults.tlsListen };
  const owner = adminListen.endsWith(':0')
    ? undefined
    : Object.entries(others).find(([, listen]) => listen !== '' && listen === adminListen)?.[0];
  const address: ConfigFault[] = owner
    ? [{ path: ['http', 'adminListen'], text: `got ${quote(adminListen)}, which http.${owner} has already` }]
    : [];
  if (metricsTokenEnv === undefined || metricsTokenFile === undefined) return address;
  const text = 'stands beside metricsTokenEnv; want at most one of both';
  return [...address, { path: ['http', 'metricsTokenFile'], text, atKey: true }];
}

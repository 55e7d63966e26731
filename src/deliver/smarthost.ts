// The next hop of a smarthost route: one server, whatever the recipient's domain.

import type { NextHop, NextHops } from './next-hop.ts';
import type { SmarthostRoute } from './settings.ts';
import { connectSmtp } from './smtp/smtp-client.ts';
import type { SmtpTimeouts } from './smtp/smtp-timeouts.ts';

/**
 * Makes the one next hop of a smarthost route.
 * @param route its password and certificates are read at each connection
 * @param own our name in EHLO, and how long we wait
 */
export function smarthostHops(
  route: SmarthostRoute,
  own: { readonly hostname: string; readonly timeouts: SmtpTimeouts },
): NextHops {
  const client = { ...route, ...own };
  const hop: NextHop = {
    key: `${route.host}:${route.port}`,
    label: `${route.name} (${route.host}:${route.port})`,
    async connect({ signal }) {
      const result = await connectSmtp(client, signal);
      return 'connection' in result ? result.connection : result.refused;
    },
  };
  return { find: async () => hop };
}

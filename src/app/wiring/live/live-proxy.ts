// The proxy applications, loaded with the first configuration that has zones: without a zone there can be none.

import { lazily } from '../../../base/load/lazily.ts';
import { proxyAccounts } from '../../../proxy/application/zone.ts';
import type { Proxy, ProxyChange, ProxyConfigured, ProxyParts } from '../../../proxy/proxy.ts';
import type { MetricFamily } from '../../../web/http/metrics.ts';
import type { Config } from '../../config/config.ts';

/** The endpoints of the proxy applications. */
export type ProxyRoutes = Pick<Proxy, 'plugins'>;

/** Proxy applications that may not be loaded yet; otherwise as `Proxy`. */
export interface LiveProxy extends ProxyRoutes, Pick<Proxy, 'seed' | 'start' | 'tell' | 'drain'> {
  /** As `Proxy.prepare`. */
  prepare(next: ProxyConfigured): Promise<ProxyChange>;
}

/** The part of a configuration that the proxy applications are made from. */
export function proxyConfigured(config: Config): ProxyConfigured {
  return {
    zones: config.zones,
    accounts: proxyAccounts(config.accounts, config.edgeAccounts),
    settings: config.proxy,
    file: config.file,
    drainMs: config.drainSeconds * 1000,
  };
}

/** Makes the proxy applications, and opens them where there are zones. @param onMetrics called once their metrics are loaded */
export async function openLiveProxy(
  parts: ProxyParts,
  onMetrics: (families: readonly MetricFamily[]) => void,
): Promise<LiveProxy> {
  let configured: ProxyConfigured = parts;
  let proxy: Proxy | undefined;
  let isStarted = false;
  const load = lazily(async () => {
    const { openProxy } = await import('../../../proxy/proxy.ts');
    const opened = await openProxy({ ...parts, ...configured });
    onMetrics(opened.metrics);
    if (isStarted) await opened.start();
    return (proxy = opened);
  });
  if (configured.zones.length > 0) await load();
  return {
    plugins: async () => await (await load()).plugins(),
    async seed() {
      await proxy?.seed();
    },
    async prepare(next) {
      if (next.zones.length > 0) await load();
      const change = proxy?.prepare(next);
      return {
        plugins: async () => await (change ?? (await load())).plugins(),
        seed: async () => await change?.seed(),
        commit: async () => {
          configured = next;
          await (change ?? proxy?.prepare(next))?.commit();
        },
      };
    },
    async start() {
      isStarted = true;
      await proxy?.start();
    },
    tell: async (question) => (await load()).tell(question),
    async drain(withinMs) {
      isStarted = false;
      await proxy?.drain(withinMs);
    },
  };
}

// Notices what other processes change in the store of applications (D94).

import type { Logger } from '../../base/log.ts';
import type { ApplicationStore } from './store.ts';

/** How often changes are looked for: within the second of D94. */
const watchMs = 500;

/** Tells when the store was changed, by whomever. */
export function watchStore(
  store: Pick<ApplicationStore, 'revision'>,
  onChange: () => Promise<void>,
  log: Logger,
): { readonly stop: () => void } {
  let seen: number | undefined;
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    try {
      const revision = await store.revision();
      if (seen !== undefined && seen !== revision) await onChange();
      seen = revision;
    } catch (error) {
      // The database may be busy; the next look finds the same change.
      log.warn({ err: error }, 'cannot look for changes of proxy applications');
    } finally {
      isLooking = false;
    }
  };
  void look();
  const timer = setInterval(() => void look(), watchMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

// Notices what other processes change in the store of applications (D94): at once where the database tells of it.

import type { Changes } from '../../base/database/database.ts';
import type { Logger } from '../../base/log.ts';
import type { ApplicationStore } from './application-store.ts';

/** How often changes are looked for: within the second of D94. */
const watchMs = 500;

/** Tells when the store was changed, by whomever. @param changes says at once that it may have been */
export function watchStore(
  store: Pick<ApplicationStore, 'revision'>,
  onChange: () => Promise<void>,
  { changes, log }: { readonly changes: Changes; readonly log: Logger },
): { readonly stop: () => void } {
  let seen: number | undefined;
  let isLooking = false;
  let isAskedAgain = false;
  const look = async (): Promise<void> => {
    isAskedAgain = isLooking;
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
    if (isAskedAgain) await look();
  };
  void look();
  const timer = setInterval(() => void look(), watchMs);
  timer.unref();
  const ignore = changes.on('proxy_revision', () => void look());
  return {
    stop: () => {
      ignore();
      clearInterval(timer);
    },
  };
}

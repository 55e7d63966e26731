// Joins the parts of the console: its pages, signing in and out, and who is signed in.

import type { Account } from '../../accounts/account.ts';
import { createMinuteCounts } from '../../accounts/minute-window.ts';
import type { Database } from '../../base/database/database.ts';
import type { SharedMinutes } from '../../base/process-group.ts';
import type { BrowserSessions } from '../http/authorization.ts';
import type { RootPlugin, V4App } from '../http/v4-app.ts';
import type { SignInParts } from './session-routes.ts';
import { openSessionStore } from './session-store.ts';
import { type SessionParts, Sessions } from './sessions.ts';

interface ConsoleParts
  extends Pick<SignInParts, 'accounts' | 'guessing' | 'bodies' | 'log' | 'clock' | 'isServed' | 'isServing'> {
  readonly database: Database;
  /** Counts sign-ins over all processes; absent: there is one. */
  readonly minutes?: SharedMinutes | undefined;
}

/** What the configuration says of the console. */
export interface SessionSettings extends Pick<SessionParts, 'linked' | 'publicUrl'> {
  readonly accounts: readonly Pick<Account, 'id' | 'name'>[];
}

/** The console, under whatever configuration. */
export interface Console {
  /** Makes its routes and its sessions under a configuration, at the start and at each reload. */
  under(settings: SessionSettings): { readonly console: RootPlugin; readonly sessions: BrowserSessions };
}

/** Opens the console and brings its tables up to date. */
export async function openConsole(parts: ConsoleParts): Promise<Console> {
  const { database, clock, minutes = createMinuteCounts(() => clock.monotonic()) } = parts;
  const store = await openSessionStore(database);
  return {
    under({ accounts: allAccounts, ...settings }) {
      const shared = { ...parts, ...settings, store, minutes, allAccounts };
      const sessions = new Sessions(shared);
      return {
        sessions,
        async console(app, onAuthFailure) {
          const { pageRoutes } = await import('./page-routes.ts');
          const { sessionRoutes } = await import('./session-routes.ts');
          pageRoutes(app);
          void app.register(async (scope: V4App) => sessionRoutes(scope, { ...shared, sessions, onAuthFailure }));
        },
      };
    },
  };
}

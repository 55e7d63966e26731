// The pages: paths, places in the list at the side, and modules, which are loaded when a page is first opened.

import type { ComponentType } from 'preact';
import type { IconName } from './parts/element.ts';
import type { PageProps } from './state/session.ts';
import { matchPath, type RouteParameters } from './text/route-path.ts';

/** A page of the console. */
export interface Page {
  readonly pattern: string;
  readonly load: () => Promise<{ readonly Page: ComponentType<PageProps> }>;
  /** Present for pages in the list at the side. */
  readonly entry?: { readonly label: string; readonly icon: IconName; readonly group?: string | undefined };
  readonly isForAdmin?: boolean;
  readonly isOfOneAccount?: boolean;
}

/** A page of the list, whose path has the name of its icon; with a group's name where it is the first of that group. */
function listed(
  icon: IconName,
  label: string,
  load: Page['load'],
  { group, ...whose }: Pick<Page, 'isForAdmin' | 'isOfOneAccount'> & { readonly group?: string } = {},
): Page {
  return { pattern: `/${icon}`, load, entry: { label, icon, group }, ...whose };
}

const isOfOneAccount = true;

/** Every page, in the order of the list. */
export const pages: readonly Page[] = [
  { ...listed('overview', 'Overview', () => import('./pages/overview.ts')), pattern: '/' },
  listed('messages', 'Messages', () => import('./pages/messages.ts'), { group: 'Mail' }),
  { pattern: '/messages/:id', load: () => import('./pages/message/message.ts') },
  listed('refusals', 'Refusals', () => import('./pages/refusals.ts')),
  listed('queue', 'Queue', () => import('./pages/queue.ts')),
  listed('try', 'Try it', () => import('./pages/try-it.ts'), { isOfOneAccount }),
  listed('suppressions', 'Suppressions', () => import('./pages/suppressions.ts'), { group: 'Account', isOfOneAccount }),
  listed('domains', 'Domains', () => import('./pages/domains.ts'), { isOfOneAccount }),
  listed('tokens', 'Tokens', () => import('./pages/tokens.ts'), { isOfOneAccount }),
  listed('webhooks', 'Webhooks', () => import('./pages/webhooks.ts'), { isOfOneAccount }),
  { pattern: '/webhooks/:id', load: async () => ({ Page: (await import('./pages/webhooks.ts')).WebhookPage }) },
  listed('edge', 'Edge', () => import('./pages/edge.ts'), { group: 'Network', isOfOneAccount }),
  listed('proxy', 'Proxy', () => import('./pages/proxy.ts'), { isOfOneAccount }),
  listed('settings', 'Settings', () => import('./pages/settings.ts'), { group: 'Gateway', isForAdmin: true }),
];

/** Finds the page of a path. */
export function findPage(path: string): { readonly page: Page; readonly parameters: RouteParameters } | undefined {
  for (const page of pages) {
    const parameters = matchPath(path, page.pattern);
    if (parameters) return { page, parameters };
  }
  return undefined;
}

// The pages: their paths, where they stand in the list at the side, and the module that draws each. A module is loaded when its
// page is first opened.

import type { ComponentType } from 'preact';
import type { IconName } from './parts/icon.ts';
import type { PageProps } from './state/location.ts';
import { matchPath, type RouteParameters } from './text/route-path.ts';

/** A page. */
export interface Page {
  readonly pattern: string;
  readonly load: () => Promise<ComponentType<PageProps>>;
  /** Present for pages in the list at the side. */
  readonly entry?: { readonly label: string; readonly icon: IconName; readonly group?: string };
  /** Only for `admin`. */
  readonly isForAdmin?: boolean;
  /** False for pages that show one account's things, whichever accounts are looked at. */
  readonly isOfAllAccounts?: false;
}

/** Every page, in the order of the list. */
export const pages: readonly Page[] = [
  {
    pattern: '/',
    load: async () => (await import('./pages/overview.ts')).OverviewPage,
    entry: { label: 'Overview', icon: 'overview' },
  },
  {
    pattern: '/messages',
    load: async () => (await import('./pages/messages.ts')).MessagesPage,
    entry: { label: 'Messages', icon: 'messages', group: 'Mail' },
  },
  { pattern: '/messages/:id', load: async () => (await import('./pages/message/message.ts')).MessagePage },
  {
    pattern: '/refusals',
    load: async () => (await import('./pages/refusals.ts')).RefusalsPage,
    entry: { label: 'Refusals', icon: 'refusals' },
  },
  {
    pattern: '/queue',
    load: async () => (await import('./pages/queue/queue.ts')).QueuePage,
    entry: { label: 'Queue', icon: 'queue' },
  },
  {
    pattern: '/try',
    load: async () => (await import('./pages/try-it.ts')).TryPage,
    entry: { label: 'Try it', icon: 'try' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/suppressions',
    load: async () => (await import('./pages/suppressions.ts')).SuppressionsPage,
    entry: { label: 'Suppressions', icon: 'suppressions', group: 'Account' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/domains',
    load: async () => (await import('./pages/domains.ts')).DomainsPage,
    entry: { label: 'Domains', icon: 'domains' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/tokens',
    load: async () => (await import('./pages/tokens.ts')).TokensPage,
    entry: { label: 'Tokens', icon: 'tokens' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/webhooks',
    load: async () => (await import('./pages/webhooks.ts')).WebhooksPage,
    entry: { label: 'Webhooks', icon: 'webhooks' },
    isOfAllAccounts: false,
  },
  { pattern: '/webhooks/:id', load: async () => (await import('./pages/webhook.ts')).WebhookPage },
  {
    pattern: '/edge',
    load: async () => (await import('./pages/edge.ts')).EdgePage,
    entry: { label: 'Edge', icon: 'edge', group: 'Network' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/proxy',
    load: async () => (await import('./pages/proxy.ts')).ProxyPage,
    entry: { label: 'Proxy', icon: 'proxy' },
    isOfAllAccounts: false,
  },
  {
    pattern: '/settings',
    load: async () => (await import('./pages/settings.ts')).SettingsPage,
    entry: { label: 'Settings', icon: 'settings', group: 'Gateway' },
    isForAdmin: true,
  },
];

/** Finds the page of a path. */
export function findPage(path: string): { readonly page: Page; readonly parameters: RouteParameters } | undefined {
  for (const page of pages) {
    const parameters = matchPath(path, page.pattern);
    if (parameters) return { page, parameters };
  }
  return undefined;
}

// What keeps a copy that came to a shadow listener from being sent.

import { of } from '../guard.ts';

const door = ['test/doors/smtp/shadow.test.ts'];
const gateway = ['test/e2e/shadow.test.ts'];
const spool = ['test/spool/sqlite/sqlite-spool.test.ts'];

/** What keeps a copy that came to a shadow listener from being sent, and from costing its account anything. */
export const shadowGuards = [
  ...of('doors/smtp/smtp-door.ts', door, [
    ['if (!listener.shadow) return createMessageIntake', 'return createMessageIntake'],
    ['onRefused?.(listener.shadow ? { ...refusal, shadow: true } : refusal)', 'onRefused?.(refusal)'],
  ]),
  ...of('doors/smtp/mail-commands.ts', door, [
    [
      'whenKnown(shadow ? false : this.parts.context.suppressed(account, recipient)',
      'whenKnown(this.parts.context.suppressed(account, recipient)',
    ],
    ['if (this.parts.context.listener.shadow) return replies.startData;', ''],
  ]),
  ...of('pipeline/judge-copy.ts', gateway, [['      shadow,\n', '']]),
  ...of('web/admin/journal/resend-endpoint.ts', gateway, [
    ['if (entry.facts.shadow) throw', 'if (entry.isDamaged) throw'],
  ]),
  ...of('spool/events/mail-event.ts', spool, [["share: 'copies', ", '']]),
  ...of('spool/search/event-feed.ts', spool, [['return `${event.kind} ${event.account}`', 'return event.account']]),
  ...of('delivery/webhooks/round.ts', gateway, [
    ['const { cursor: after, kinds = toldKinds } =', 'const { cursor: after, kinds } ='],
  ]),
];

// Short sentences about what has been done, which are shown for a while and read out by screen readers.

import { signal } from '@preact/signals';

interface Notice {
  readonly id: number;
  readonly kind: 'done' | 'failed';
  readonly text: string;
}

/** Those that are shown, the newest last; at most four. */
export const notices = signal<readonly Notice[]>([]);

let last = 0;

/** Milliseconds for which a sentence is shown. One about a failure stays until it is closed. */
const shownFor = 7000;

/** Takes a sentence away. */
export function closeNotice(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Shows a sentence. */
export function tell(text: string, kind: Notice['kind'] = 'done'): void {
  last += 1;
  const id = last;
  notices.value = [...notices.value.slice(-3), { id, kind, text }];
  if (kind === 'done') setTimeout(() => closeNotice(id), shownFor);
}

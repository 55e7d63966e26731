// What happened to a recipient, in words: the members of an event as the HTTP interface tells them.

/** An event as far as its words need it; which members it has depends on its kind. */
interface ToldEvent {
  readonly kind: string;
  readonly reply?: { readonly code: number; readonly enhanced?: string; readonly text?: string };
  readonly [member: string]: unknown;
}

const bounces: Readonly<Record<string, string>> = {
  hard: 'Nobody can be reached at this address.',
  soft: 'The address cannot be reached for now.',
  policy: 'Mail of this kind is not wanted there.',
};

const feedback: Readonly<Record<string, string>> = {
  abuse: 'The recipient called it unwanted.',
  fraud: 'The recipient called it a fraud.',
  virus: 'The recipient found a virus in it.',
  'not-spam': 'The recipient says that it is no spam.',
};

const suppressions: Readonly<Record<string, string>> = {
  hard_bounce: 'Mail to this address came back for good, so that it gets no more.',
  complaint: 'The recipient called mail unwanted, so that the address gets no more.',
};

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Finds the words of a token. One that is not known is told by its own letters, without its underscores. */
function wordsFor(table: Readonly<Record<string, string>>, token: string): string {
  return (Object.hasOwn(table, token) ? table[token] : undefined) ?? token.replaceAll('_', ' ');
}

function notesOf(event: ToldEvent): readonly string[] {
  const { kind } = event;
  if (kind === 'bounced') return [wordsFor(bounces, text(event['bounce_class']))];
  if (kind === 'complained') return [wordsFor(feedback, text(event['feedback_type']))];
  if (kind === 'suppressed') return [wordsFor(suppressions, text(event['reason']))];
  if (event['is_untried'] === true) return ['The next hop was not reached, which does not count as an attempt.'];
  const attempts = event['attempts'];
  return kind !== 'delivered' && typeof attempts === 'number' && attempts > 0 ? [`Attempt ${attempts}.`] : [];
}

/** Tells an event in words. */
export function eventWords(event: ToldEvent) {
  const { kind, reply } = event;
  const replied = [reply?.code, reply?.enhanced, reply?.text].filter((part) => part !== undefined && part !== '');
  const nextAt = text(event['next_attempt_at']);
  return {
    /** Who said so: a next hop, or whoever made a report; empty where nobody is named. */
    by: text(event['host']) || text(event['remote_mta']) || text(event['reported_by']),
    /** What they said, as it came; empty where they said nothing. */
    said: replied.length > 0 ? replied.join(' ') : text(event['diagnostic']),
    notes: notesOf(event).filter((note) => note !== ''),
    /** When it is tried again, in RFC 3339. */
    ...(kind === 'deferred' && nextAt !== '' ? { nextAt } : {}),
  };
}

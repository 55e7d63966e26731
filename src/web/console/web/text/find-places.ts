// What a text may mean that somebody typed to find something: a page, a message, an address.

/** Something that was found, and where it is. */
export interface Found<Icon extends string = string> {
  readonly label: string;
  readonly icon: Icon;
  /** The pattern of its page, what stands in the places of its names, and its filters. */
  readonly pattern: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly filters?: Readonly<Record<string, string>>;
}

/** The ids of messages: 32 hexadecimal digits, with or without the hyphens of a UUID. */
const messageId = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;

const mostFound = 8;

/** Finds where a text may lead: a message by id, messages by words, an address's suppression, pages by name. @param pages that can be opened */
export function findPlaces<Icon extends string>(
  typed: string,
  pages: readonly Found<Icon>[],
): readonly Found<Icon | 'messages' | 'suppressions'>[] {
  const text = typed.trim();
  if (text === '') return pages.slice(0, mostFound);
  const filters = { q: text };
  const messages = { label: `Messages with “${text}”`, icon: 'messages', pattern: '/messages', filters } as const;
  const exact = {
    label: `Message ${text}`,
    icon: 'messages',
    pattern: '/messages/:id',
    parameters: { id: text },
  } as const;
  const address = { label: `Suppression of ${text}`, icon: 'suppressions', pattern: '/suppressions', filters } as const;
  const named = pages.filter(({ label }) => label.toLowerCase().includes(text.toLowerCase()));
  return [...(messageId.test(text) ? [exact] : []), ...named, messages, ...(text.includes('@') ? [address] : [])].slice(
    0,
    mostFound,
  );
}

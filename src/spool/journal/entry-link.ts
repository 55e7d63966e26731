// The link in a refusal to the page that tells more: the entry's id is chosen by the door that answers.

/** Makes the links of one gateway. */
export interface EntryLink {
  /** Makes the id of an entry, a UUIDv7. */
  readonly newId: () => string;
  /** The URL of an entry's page. */
  readonly urlOf: (id: string) => string;
}

/** Makes links below a URL. @param publicUrl where people reach the console, without a slash at the end */
export function entryLinkBelow(publicUrl: string | undefined, newId: () => string): EntryLink | undefined {
  if (publicUrl === undefined) return undefined;
  return { newId, urlOf: (id) => `${publicUrl}/m/${id}` };
}

/** Counts by a key, such as what is open of each client. A count of zero is removed, so there are never more keys than things that are counted. */
export class Counts<Key = string> extends Map<Key, number> {
  /** The count of a key; 0 where nothing of it was counted. */
  of(key: Key): number {
    return this.get(key) ?? 0;
  }

  /** @param by how much is added; a negative number takes away */
  add(key: Key, by = 1): void {
    const count = this.of(key) + by;
    if (count > 0) this.set(key, count);
    else this.delete(key);
  }
}

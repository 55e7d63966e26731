// A queue with the same cost for every operation however long it is; Array.shift moves every element of a long array.

/** First in, first out. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the oldest element. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#first];
    this.#items[this.#first] = undefined;
    this.#first += 1;
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }

  /** Takes all elements, oldest first. */
  takeAll(): T[] {
    const items = this.#items.slice(this.#first).filter((item) => item !== undefined);
    this.#items = [];
    this.#first = 0;
    return items;
  }
}

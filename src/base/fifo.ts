// A queue with the same cost for every operation however long it is; Array.shift moves every element of a long array.

import { Counts } from './counts.ts';

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

/** Owners that are asked for one who is welcome. */
const mostAsked = 100;

/** First in, first out for each owner, in turns; every second turn is for one who had nothing here, so that a single message comes next. */
export class FairFifo<T> {
  /** By owner; whose turn is next comes first. An owner is in one of both. */
  readonly #newcomers = new Map<string, Fifo<T>>();
  readonly #others = new Map<string, Fifo<T>>();
  #isNewcomersTurn = false;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(owner: string, item: T): void {
    const known = this.#others.get(owner) ?? this.#newcomers.get(owner);
    const fifo = known ?? new Fifo<T>();
    if (!known) this.#newcomers.set(owner, fifo);
    fifo.push(item);
    this.#length += 1;
  }

  /** Takes the oldest element of the owner whose turn it is. @param isWelcome only of such owners; the first hundred are asked */
  shift(isWelcome?: (owner: string) => boolean): T | undefined {
    if (this.#length === 0) return undefined;
    if (isWelcome) {
      const found = this.#find(isWelcome);
      return found && this.#take(...found);
    }
    this.#isNewcomersTurn = !this.#isNewcomersTurn;
    const [first, second] = this.#isNewcomersTurn ? [this.#newcomers, this.#others] : [this.#others, this.#newcomers];
    const turns = first.size > 0 ? first : second;
    const next = turns.entries().next();
    if (next.done) return undefined;
    return this.#take(turns, next.value[0]);
  }

  /** The first hundred owners. */
  owners(): readonly string[] {
    return [...this.#newcomers.keys().take(mostAsked), ...this.#others.keys().take(mostAsked)].slice(0, mostAsked);
  }

  /** Whether one of the first hundred owners is welcome. */
  hasFor(isWelcome: (owner: string) => boolean): boolean {
    return this.#find(isWelcome) !== undefined;
  }

  #find(isWelcome: (owner: string) => boolean): readonly [Map<string, Fifo<T>>, string] | undefined {
    let asked = 0;
    for (const turns of [this.#newcomers, this.#others]) {
      for (const owner of turns.keys()) {
        if (isWelcome(owner)) return [turns, owner];
        asked += 1;
        if (asked === mostAsked) return undefined;
      }
    }
    return undefined;
  }

  #take(turns: Map<string, Fifo<T>>, owner: string): T | undefined {
    const fifo = turns.get(owner);
    const item = fifo?.shift();
    this.#length -= 1;
    turns.delete(owner);
    // An owner with more goes behind the others.
    if (fifo && fifo.length > 0) this.#others.set(owner, fifo);
    return item;
  }

  /** Takes all elements, each owner's oldest first. */
  takeAll(): T[] {
    const items = [...this.#newcomers.values(), ...this.#others.values()].flatMap((fifo) => fifo.takeAll());
    this.#newcomers.clear();
    this.#others.clear();
    this.#length = 0;
    return items;
  }
}

/** An owner may have so many times the places that it leaves free: one alone leaves a tenth. */
const usualGreed = 9;

/** Places for work at the same time: each owner leaves a part to others, and those who wait have their turns by owner. */
export class FairSlots {
  readonly #most: number;
  readonly #greed: number;
  readonly #waiting = new FairFifo<() => void>();
  readonly #byOwner = new Counts();
  #taken = 0;

  /** @param most places @param greed how many times the places that it leaves free one owner may have */
  constructor(most: number, greed = usualGreed) {
    this.#most = most;
    this.#greed = greed;
  }

  /** Takes a place as soon as there is one. @returns what gives it back; to be called once */
  async take(owner: string): Promise<() => void> {
    if (this.#mayHave(owner)) this.#count(owner, 1);
    else {
      await new Promise<void>((resolve) =>
        this.#waiting.push(owner, () => {
          this.#count(owner, 1);
          resolve();
        }),
      );
    }
    return () => {
      this.#count(owner, -1);
      const next = () => this.#waiting.shift((one) => this.#mayHave(one));
      for (let give = next(); give; give = next()) give();
    };
  }

  #mayHave(owner: string): boolean {
    return this.#byOwner.of(owner) < this.#greed * (this.#most - this.#taken);
  }

  #count(owner: string, by: 1 | -1): void {
    this.#taken += by;
    this.#byOwner.add(owner, by);
  }
}

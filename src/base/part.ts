/** What works with parts that it is handed: others that it needs, and settings. */
export abstract class Part<Parts> {
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }
}

// Stands for the library that writes the fields of a file. What a verdict depends on is the structure that it stands in, which the
// composer builds itself.

/** The fields of a part. */
export default class MimeNode {
  readonly #fields: string[];

  constructor(contentType: string) {
    this.#fields = [`Content-Type: ${contentType}`];
  }

  setHeader(name: string, value: string): void {
    this.#fields.push(`${name}: ${value}`);
  }

  buildHeaders(): string {
    return this.#fields.join('\r\n');
  }
}

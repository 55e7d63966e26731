// Knows which methods a path takes, for `Allow` of a 405 (RFC 9110 §15.5.6). The router cannot tell: it finds only routes of the
// request's own method.

/** The methods of every route that was registered. */
export class AllowedMethods {
  readonly #routes: { readonly steps: readonly string[]; readonly methods: Set<string> }[] = [];

  /** Notes a route. `url` is the router's pattern: `/a/:name/b`, or `/a/*` for everything below `/a/`. */
  add(url: string, methods: readonly string[]): void {
    const known = this.#routes.find(({ steps }) => steps.join('/') === url);
    if (known) for (const method of methods) known.methods.add(method);
    else this.#routes.push({ steps: url.split('/'), methods: new Set(methods) });
  }

  /** The methods that the path of a request takes, sorted; empty where no route has it. */
  of(path: string): readonly string[] {
    const steps = path.split('/');
    const methods = new Set<string>();
    for (const route of this.#routes) {
      const fits =
        (route.steps.length === steps.length || (route.steps.at(-1) === '*' && route.steps.length < steps.length)) &&
        route.steps.every((step, index) =>
          step.startsWith(':') ? steps[index] !== '' : step === '*' || step === steps[index],
        );
      if (fits) for (const method of route.methods) methods.add(method);
    }
    return [...methods].sort();
  }
}

// The paths of the console's pages: patterns such as `/messages/:id`, below the base of all of them.

/** The base of all pages. */
export const basePath = '/console';

/** What stands in the places of a pattern's names, decoded. */
export type RouteParameters = Readonly<Record<string, string>>;

function decode(step: string): string | undefined {
  try {
    return decodeURIComponent(step);
  } catch {
    return undefined;
  }
}

/** Compares a URL's path with a pattern such as `/messages/:id`. @returns what its names stand for; undefined where it is another */
export function matchPath(path: string, pattern: string): RouteParameters | undefined {
  if (path !== basePath && !path.startsWith(`${basePath}/`)) return undefined;
  const steps = path.slice(basePath.length).replace(/\/$/, '').split('/');
  const wanted = pattern.replace(/\/$/, '').split('/');
  if (steps.length !== wanted.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [index, want] of wanted.entries()) {
    const step = decode(steps[index] ?? '');
    if (step === undefined) return undefined;
    if (!want.startsWith(':')) {
      if (step !== want) return undefined;
    } else if (step === '') return undefined;
    else parameters[want.slice(1)] = step;
  }
  return parameters;
}

/** The path of a header's page. The name may be any text: half of a surrogate pair in it would else keep the page from being drawn. */
export function headerPath(name: string): string {
  return `/headers/${encodeURIComponent(name.toWellFormed())}`;
}

/** Writes a path. @param pattern as in `matchPath` @param parameters a value for each of its names */
export function writePath(pattern: string, parameters: RouteParameters = {}): string {
  const path = pattern.replace(/:([a-z]+)/g, (_, name: string) => encodeURIComponent(parameters[name] ?? ''));
  return `${basePath}${path}`;
}

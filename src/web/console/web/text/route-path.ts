// The paths of the console's pages: patterns such as `/messages/:id`, below the base of all of them.

/** The base of all pages. */
export const basePath = '/console';

/** What stands in the places of a pattern's names, decoded. */
export type RouteParameters = Readonly<Record<string, string>>;

/** Compares a URL's path with a pattern such as `/messages/:id`. @returns what its names stand for; undefined where it is another */
export function matchPath(path: string, pattern: string): RouteParameters | undefined {
  const form = `^${basePath}${pattern.replace(/\/$/, '').replace(/:([a-z]+)/g, '(?<$1>[^/]+)')}/?$`;
  const found = new RegExp(form).exec(path);
  try {
    const named = Object.entries(found?.groups ?? {}).map(([name, step]) => [name, decodeURIComponent(step)] as const);
    return found ? Object.fromEntries(named) : undefined;
  } catch {
    // It is encoded wrongly.
    return undefined;
  }
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

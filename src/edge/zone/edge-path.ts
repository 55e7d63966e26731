// The paths of a zone that are the edge's own: /cdn-cgi/ and what an origin might take for it (D60).

/** What a path is to the edge. */
export type EdgePath =
  /** The zone's own: the origin's. */
  | { readonly kind: 'origin' }
  /** /cdn-cgi/error/{code}; the code may be none of the catalogue's. */
  | { readonly kind: 'error'; readonly code: number }
  /** Below /cdn-cgi/ in some spelling, and nothing there. */
  | { readonly kind: 'reserved' };

const errorPath = /^\/cdn-cgi\/error\/([1-9][0-9]{2,3})$/;

function decode(text: string): string {
  if (!text.includes('%')) return text;
  return text.replace(/%[0-9A-Fa-f]{2}/g, (triplet) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16)));
}

/** The segment a path begins with, before and behind dot segments, without empty ones, backslashes and parameters. */
function firstSegments(path: string): readonly (string | undefined)[] {
  const steps: string[] = [];
  let written: string | undefined;
  for (const segment of path.split(/[/\\]/)) {
    const step = segment.split(/[;?#\0]/, 1)[0] ?? '';
    if (step === '' || step === '.') continue;
    if (step === '..') steps.pop();
    else steps.push(step);
    written ??= step;
  }
  return [written, steps[0]];
}

function isReserved(reading: string): boolean {
  // A segment is a part of the reading: most have none that could be it.
  if (!reading.toLowerCase().includes('cdn-cgi')) return false;
  return firstSegments(reading).some((segment) => segment?.trim().toLowerCase() === 'cdn-cgi');
}

/**
 * Reads a path without its query. Whatever an origin could read as /cdn-cgi/ is reserved, whether it decodes
 * percent-encoding once or twice, merges slashes or compares without case: nothing of it may reach one.
 */
export function readEdgePath(path: string): EdgePath {
  const code = errorPath.exec(path)?.[1];
  if (code !== undefined) return { kind: 'error', code: Number(code) };
  const once = decode(path);
  const readings = once === path ? [path] : [path, once, decode(once)];
  return { kind: readings.some(isReserved) ? 'reserved' : 'origin' };
}

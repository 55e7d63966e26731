// Recognises the paths of a zone that belong to the edge: /cdn-cgi/ and what an origin might take for it (D60).

/** Who answers a path. */
export type EdgePath =
  /** The origin. */
  | { readonly kind: 'origin' }
  /** The edge, with the error of /cdn-cgi/error/{code}; the catalogue may not have the code. */
  | { readonly kind: 'error'; readonly code: number }
  /** The edge, with 404: the path is below /cdn-cgi/ in some spelling, and there is nothing. */
  | { readonly kind: 'reserved' };

const errorPath = /^\/cdn-cgi\/error\/([1-9][0-9]{2,3})$/;

function decode(text: string): string {
  if (!text.includes('%')) return text;
  return text.replace(/%[0-9A-Fa-f]{2}/g, (triplet) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16)));
}

/** The first segment as written and after `..` is resolved. Empty segments, `.` and parameters are left out. */
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
  // A quick test first: most paths do not hold the name at all.
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

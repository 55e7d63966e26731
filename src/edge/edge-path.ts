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
  return text.replace(/%[0-9A-Fa-f]{2}/g, (triplet) => String.fromCharCode(Number.parseInt(triplet.slice(1), 16)));
}

/** The first segment that an origin may see behind encoding, empty and dot segments, backslashes and path parameters. */
function firstSegments(path: string): string[] {
  const steps: string[] = [];
  for (const segment of path.split(/[/\\]/)) {
    const step = segment.split(/[;?#\0]/, 1)[0] ?? '';
    if (step === '' || step === '.') continue;
    if (step === '..') steps.pop();
    else steps.push(step);
  }
  return steps.slice(0, 1);
}

/**
 * Reads a path without its query. Whatever an origin could read as /cdn-cgi/ is reserved, whether it decodes
 * percent-encoding once or twice, merges slashes or compares without case: nothing of it may reach one.
 */
export function readEdgePath(path: string): EdgePath {
  const code = errorPath.exec(path)?.[1];
  if (code !== undefined) return { kind: 'error', code: Number(code) };
  const once = decode(path);
  const readings = [path, once, decode(once)];
  const isReserved = readings.some((reading) => firstSegments(reading)[0]?.toLowerCase().trim() === 'cdn-cgi');
  return { kind: isReserved ? 'reserved' : 'origin' };
}

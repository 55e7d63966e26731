// A fault of the configuration, and how it is told: place, path, value, what is wanted.

/** The path to a value: keys and list positions from the top. */
export type ConfigPath = readonly (string | number)[];

/** One fault of the configuration. */
export interface ConfigFault {
  readonly path: ConfigPath;
  /** The text that stands behind the path: `got "x", want ...`. It never holds a secret. */
  readonly text: string;
  /** Whether the fault is at the key and not at its value, as for an unknown key. */
  readonly atKey?: boolean;
}

const plainKey = /^[A-Za-z_][A-Za-z0-9_-]*$/;

/** Writes a path: `smtp.listeners[0].listen`, `zones[1].records["a.b"]`; the top is `(top level)`. */
export function formatPath(path: ConfigPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!plainKey.test(step)) text += `[${JSON.stringify(step.slice(0, 60))}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text === '' ? '(top level)' : text;
}

const longestShown = 60;

/** Quotes a value for an error: as JSON, shortened, with the user part of a URL hidden. */
export function quote(value: unknown): string {
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object') return 'a mapping';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return `a ${typeof value}`;
  const shown = value.replace(/^([A-Za-z0-9+.-]{1,30}:\/\/)[^/]*@/, '$1[hidden]@');
  return JSON.stringify(shown.length > longestShown ? `${shown.slice(0, longestShown)}...` : shown);
}

/** The kind of a secret's value, which an error shows instead of the value. */
export function kindOf(value: unknown): string {
  if (value === null || typeof value === 'object') return quote(value);
  return `a ${typeof value === 'string' ? 'text' : typeof value} (not shown)`;
}

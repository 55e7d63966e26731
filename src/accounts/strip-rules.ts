// The fields that are removed from one credential's messages before the header policy runs (D4a).

/** Fields to remove. Names are in lower case; nothing here touches lifted or MIME fields, whatever it says. */
export interface StripRules {
  /** Whole names. */
  readonly names: ReadonlySet<string>;
  /** How names may begin: `x-ms-exchange-` for `X-MS-Exchange-*`. */
  readonly prefixes: readonly string[];
  /** Whether fields without a value go. */
  readonly empty: boolean;
  /** Names of which the first field stays and later ones go. */
  readonly keepFirst: ReadonlySet<string>;
  /** How the settings spell the names of `strip` and `keepFirst`, by the name in lower case: for lines to paste. */
  readonly spellings: ReadonlyMap<string, string>;
}

/** The settings of the configuration that the rules are made from. */
export interface StripSettings {
  /** Names, or beginnings of names with one `*` at the end, in any case. */
  readonly strip?: readonly string[] | undefined;
  readonly stripEmpty?: boolean | undefined;
  /** Names in any case. */
  readonly keepFirst?: readonly string[] | undefined;
}

/** Makes the rules from the settings. Without settings they remove nothing. */
export function stripRules({ strip = [], stripEmpty = false, keepFirst = [] }: StripSettings = {}): StripRules {
  const patterns = strip.map((pattern) => pattern.toLowerCase());
  return {
    names: new Set(patterns.filter((pattern) => !pattern.endsWith('*'))),
    prefixes: patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1)),
    empty: stripEmpty,
    keepFirst: new Set(keepFirst.map((name) => name.toLowerCase())),
    spellings: new Map([...strip, ...keepFirst].map((name) => [name.toLowerCase(), name])),
  };
}

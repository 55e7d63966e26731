// The fields that are removed from one credential's messages before the header policy runs (D4a).

/** Names of fields, in lower case. */
export interface FieldNames {
  /** Whole names. */
  readonly names: ReadonlySet<string>;
  /** How names may begin: `x-ms-exchange-` for `X-MS-Exchange-*`. */
  readonly prefixes: readonly string[];
}

/** Fields to remove, in lower case: those of its own names whatever they say, and others. Lifted and MIME fields always stay. */
export interface StripRules extends FieldNames {
  /** Fields that go only where their value is refused (D4e). */
  readonly invalid: FieldNames;
  /** Whether fields without a value go. */
  readonly empty: boolean;
  /** Names of which the first field stays and later ones go. */
  readonly keepFirst: ReadonlySet<string>;
  /** How the settings spell the names of all lists, by the name in lower case: for lines to paste. */
  readonly spellings: ReadonlyMap<string, string>;
}

/** The settings of the configuration that the rules are made from. */
export interface StripSettings {
  /** Names, or beginnings of names with one `*` at the end, in any case. */
  readonly strip?: readonly string[] | undefined;
  readonly stripInvalid?: readonly string[] | undefined;
  readonly stripEmpty?: boolean | undefined;
  /** Names in any case. */
  readonly keepFirst?: readonly string[] | undefined;
}

/** Whether a list has a name. @param key in lower case */
export function hasName({ names, prefixes }: FieldNames, key: string): boolean {
  return names.has(key) || prefixes.some((prefix) => key.startsWith(prefix));
}

function fieldNames(list: readonly string[]): FieldNames {
  const patterns = list.map((pattern) => pattern.toLowerCase());
  return {
    names: new Set(patterns.filter((pattern) => !pattern.endsWith('*'))),
    prefixes: patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1)),
  };
}

/** Makes the rules from the settings. Without settings they remove nothing. */
export function stripRules(settings: StripSettings = {}): StripRules {
  const { strip = [], stripInvalid = [], stripEmpty = false, keepFirst = [] } = settings;
  return {
    ...fieldNames(strip),
    invalid: fieldNames(stripInvalid),
    empty: stripEmpty,
    keepFirst: new Set(keepFirst.map((name) => name.toLowerCase())),
    spellings: new Map([...strip, ...stripInvalid, ...keepFirst].map((name) => [name.toLowerCase(), name])),
  };
}

// The octets that mail is cut at, by name.

export const TAB = 9;
export const LF = 10;
export const CR = 13;
export const SPACE = 32;
export const HYPHEN = 45;
export const COLON = 58;
export const EQUALS = 61;

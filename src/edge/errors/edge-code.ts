// The codes of edge errors, by the family of the catalogue that has their rows (D63). Whatever names an error names it by
// one of these, so a code without a row does not compile.

/** Between the edge and an origin, and in the edge itself: 500, 502, 504 and 520 to 526. */
export type GatewayCode = 500 | 502 | 504 | 520 | 521 | 522 | 523 | 524 | 525 | 526;

/** Codes of access_denied. */
export type AccessCode =
  | 1003
  | 1005
  | 1006
  | 1007
  | 1008
  | 1009
  | 1010
  | 1011
  | 1012
  | 1020
  | 1034
  | 1106
  | 1107
  | 1108
  | 1109;

/** Codes of rate_limit, tls, legal and unsupported. */
export type ClientCode = 1015 | 1025 | 1027 | 1200 | 1017 | 1028 | 1029 | 1044 | 1026 | 1039 | 1045;

/** Codes of config. */
type ConfigCode = 1000 | 1002 | 1004 | 1013 | 1014 | 1018 | 1023 | 1033 | 1038 | 1043 | 1047 | 1049;

/** Codes of dns and config. */
export type ConfigurationCode = 1001 | 1016 | ConfigCode;

/** Codes of worker, rewrite and snippet. */
export type ScriptCode =
  | (1019 | 1042 | 1100 | 1101 | 1102 | 1103 | 1104 | 1105)
  | (1035 | 1036 | 1037 | 1040 | 1041)
  | (1201 | 1202 | 1203 | 1204 | 1205 | 1206);

/** Every code there is. */
export type EdgeCode = GatewayCode | AccessCode | ClientCode | ConfigurationCode | ScriptCode;

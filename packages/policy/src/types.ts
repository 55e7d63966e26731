// What the package takes and gives. This file imports nothing: it is the package's declaration file as it stands.

/** The token of a reason. `docs/headers.json` lists them. */
export type ReasonCode = `E_${string}`;

/** One reason why a message is refused, in the words of the gateway. */
export interface Violation {
  readonly code: ReasonCode;
  /** What is wrong and what would be right. It may quote the message. */
  readonly message: string;
  /** The header's name as given, where the reason is about one header of a message. */
  readonly name?: string;
  /** The JSON pointer of the faulty value in a request. */
  readonly pointer?: string;
  /** The reply by SMTP; absent for reasons that only a request can have. */
  readonly smtp?: { readonly code: number; readonly enhanced: string };
  /** The answer by HTTP. */
  readonly http: { readonly status: number; readonly code: number };
}

/** What becomes of a header field. */
export type FieldVerdict = 'admitted' | 'lifted' | 'mime' | 'replaced' | 'trace' | 'stripped' | 'refused';

/** One header field with its verdict. */
export interface JudgedField {
  /** As given. */
  readonly name: string;
  /** As given, its octets read as UTF-8, without blanks at both ends. */
  readonly value: string;
  readonly verdict: FieldVerdict;
  /** The rule behind the verdict, in a sentence. */
  readonly rule: string;
  /** The RFC that defines the header; absent where the policy does not know it. */
  readonly reference?: string;
  /** Why it is refused. All fields of one name share one reason. */
  readonly violation?: Violation;
  /** The path of the header's own page on a gateway: `/headers/List-Unsubscribe`. */
  readonly page: string;
}

/** The verdict on a message or request. */
export interface Judgement {
  readonly verdict: 'accepted' | 'refused';
  /** Every reason, in the order of the gateway's answer; empty where it is accepted. */
  readonly violations: readonly Violation[];
  /** Each header field, in the order of the text. */
  readonly fields: readonly JudgedField[];
  /** What counts against the limits over all headers. */
  readonly usage: { readonly allowlisted: number; readonly bytes: number };
  /**
   * The header section as it would leave: order, casing and folding, lines ending with CRLF. What only a gateway can know stands
   * for itself: its host and platform names, ids and tokens; signatures are not in it. Null where it is refused.
   */
  readonly wouldLeave: string | null;
}

/** Who sends, and the settings of the credential that would be used. Names and values are those of the configuration. */
export interface JudgeOptions {
  /** The sending domains of the account, with the names below each unless `subdomains` is false. Absent: any domain may be sent from. */
  readonly sendingDomains?: readonly (string | { readonly name: string; readonly subdomains?: boolean })[];
  /** The name of the account, which reasons tell. Default: `account`. */
  readonly account?: string;
  /** MAIL FROM; '' is the null one. Absent: the address in From decides alone. Not for requests, which have their own. */
  readonly reversePath?: string;
  readonly strip?: readonly string[];
  readonly stripInvalid?: readonly string[];
  readonly stripEmpty?: boolean;
  readonly keepFirst?: readonly string[];
  readonly trustedHop?: boolean;
  readonly defaultDomain?: string;
  /** The character set of raw 8-bit text that is not UTF-8. Default: windows-1252. */
  readonly legacyCharset?: string;
  /** What is said of the gateway in `wouldLeave`. Default: `gateway.example`. */
  readonly hostname?: string;
  /** The time in Date, milliseconds since 1970. Default: now. */
  readonly now?: number;
}

/** The body of `send`, as a value. */
export interface SendRequest {
  readonly from: unknown;
  readonly to: unknown;
  readonly subject?: unknown;
  readonly headers?: unknown;
  readonly [name: string]: unknown;
}

/** The body of `send_raw`, as a value. */
export interface SendRawRequest {
  readonly mime_message: unknown;
  readonly [name: string]: unknown;
}

/** The body of a request as the text that is sent, so that names which stand twice are seen. */
export interface RequestText {
  readonly json: string;
}

/** The header section of a message alone: names and values in their order, From among them. */
export type Fields = readonly (readonly [name: string, value: string])[];

/** A message as text or octets, its fields, or the body of a request. */
export type JudgeInput = string | Uint8Array | Fields | SendRequest | SendRawRequest | RequestText;

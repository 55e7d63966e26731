// What is asked about the content of a message, and what is answered. Both pass between processes.

/** A question. */
export type ContentQuestion =
  | { readonly kind: 'preview'; readonly octets: Uint8Array }
  /** `records`: the DNS records of the keys on file, each name with its text. */
  | { readonly kind: 'dkim'; readonly octets: Uint8Array; readonly records: readonly (readonly [string, string])[] };

/** A message as people read it. */
export interface MessagePreview {
  /** In the order of the text, decoded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly text: string | null;
  /** As it came: whoever shows it has to make it harmless. */
  readonly html: string | null;
  /** Text, HTML or headers were cut. */
  readonly truncated: boolean;
  readonly attachments: readonly {
    readonly filename: string | null;
    readonly type: string;
    readonly size: number;
    readonly inline: boolean;
    readonly content_id: string | null;
  }[];
}

/** The verdict on one signature. */
export interface SignatureVerdict {
  readonly domain: string;
  readonly selector: string;
  readonly algorithm: string;
  /** pass, fail, neutral, permerror, temperror ... (RFC 8601 §2.7.1). */
  readonly result: string;
  /** Why, where it is no pass. */
  readonly reason: string | null;
  /** The fields that it covers, as it names them. */
  readonly signed_headers: string;
}

/** The answer. */
export type ContentAnswer =
  | { readonly preview: MessagePreview }
  | { readonly signatures: readonly SignatureVerdict[] }
  | { readonly error: string };

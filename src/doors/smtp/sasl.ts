// Reads a client's responses in SASL PLAIN (RFC 4616) and LOGIN. The password is an API token (D93).

/** The user name and password that the client sent. */
export interface Login {
  readonly userName: string;
  readonly password: string;
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Decodes a response; `=` stands for an empty one (RFC 4954 §4).
 * @returns undefined when it is no base64
 */
export function decodeResponse(text: string): string | undefined {
  if (text === '=') return '';
  if (text.length % 4 !== 0 || !base64.test(text)) return undefined;
  return Buffer.from(text, 'base64').toString('utf8');
}

/**
 * Reads a PLAIN message: authzid NUL authcid NUL password. Some clients put the user name into the authzid alone; that is
 * accepted. Acting for another identity is not offered: two different names give an empty user name, which nobody has.
 * @returns undefined when it does not have three parts
 */
export function readPlain(message: string): Login | undefined {
  const [authorization, authentication, password, ...rest] = message.split('\0');
  if (authorization === undefined || authentication === undefined || password === undefined || rest.length > 0) {
    return undefined;
  }
  if (authorization === '' || authorization === authentication) return { userName: authentication, password };
  return { userName: authentication === '' ? authorization : '', password };
}

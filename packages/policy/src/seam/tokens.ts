// The tokens of a message as they look: only the gateway, which has the key, can make those that count.

const token = 'x'.repeat(52);

/** Tokens of the form that the gateway writes. */
export function makeTokens(): { readonly bounce: string; readonly feedback: string } {
  return { bounce: token, feedback: token };
}

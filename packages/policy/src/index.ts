// The header policy of Postern as a library: the verdict of the gateway on a message, without one. It needs nothing but what
// Node, browsers and workers have in common: TextDecoder, TextEncoder, URL.

export { headerLimits as limits } from '../../../src/pipeline/policy/value-rules.ts';
export { judge } from './judge.ts';

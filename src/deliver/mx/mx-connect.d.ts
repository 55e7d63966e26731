// The part of mx-connect 2 that is used; the package brings no types. docs/adr/mx-connect.md tells why no more.

declare module 'mx-connect' {
  import type { X509Certificate } from 'node:crypto';

  namespace mxConnect {
    /** A mail exchanger with its addresses. */
    interface Exchange {
      readonly exchange: string;
      readonly priority: number;
      readonly A: readonly string[];
      readonly AAAA: readonly string[];
    }

    /** What is known when the hook before the first connection is called. */
    interface Delivery {
      readonly mx: readonly Exchange[];
    }

    interface Options {
      readonly target: string;
      readonly dnsOptions: {
        /** Rejects with the codes of node:dns: ENOTFOUND and ENODATA for nothing, others for a failure. */
        readonly resolveRecords: (name: string, type: string) => Promise<readonly unknown[]>;
      };
      /** An error that is passed to `done` ends everything and is what the call rejects with. */
      readonly connectHook: (delivery: Delivery, options: object, done: (error?: Error) => void) => void;
    }

    /** RFC 6698 §2.1. */
    interface Tlsa {
      readonly usage: number;
      readonly selector: number;
      readonly mtype: number;
      readonly cert: Buffer;
    }

    const dane: {
      /** Judges a certificate; for usage 2 by the chain of its issuers, each of which must have signed the one before. */
      verifyCertAgainstTlsa(
        certificate: X509Certificate,
        records: readonly Tlsa[],
        chain: readonly X509Certificate[],
      ): { readonly valid: boolean; readonly error: string | null };
    };
  }

  /** Always rejects here, because the hook ends it. */
  function mxConnect(options: mxConnect.Options): Promise<never>;
  export default mxConnect;
}

// What one process may give a next hop, where several deliver the mail of one spool under the same limits.

/** What the share of one process is made for. */
export interface ShareUser {
  /** The connections that all processes together may have open. */
  readonly most: () => number;
  /** The connections that this one has open or is opening. */
  readonly open: () => number;
  /** It has no mail for the next hop and no connection to it. */
  readonly isUnused: () => boolean;
  /** The share is another now. */
  readonly changed: () => void;
}

/** The share of one process in the limits of one next hop. */
export interface HopShare {
  /** Connections that this process may have open; 0 while nobody has said yet. */
  readonly connections: number;
  /** The part of the messages a second, from 0 to 1. */
  readonly part: number;
  /** So many processes have mail for the next hop that this one has no share of it: others take its mail. */
  readonly isNone: boolean;
  /** There is mail for the next hop. */
  want(): void;
  /** Nothing more is begun. */
  end(): void;
}

/** Makes shares. */
export interface HopShares {
  /** @param hop names the next hop, and is the same in every process */
  share(hop: string, user: ShareUser): HopShare;
}

/** The whole of every next hop, for the only process that delivers. */
export const wholeShares: HopShares = {
  share: (_, { most }) => ({
    get connections() {
      return most();
    },
    part: 1,
    isNone: false,
    want: () => undefined,
    end: () => undefined,
  }),
};

/** What a process has of a next hop. */
export interface Granted {
  /** Connections that are written down for it: no other process has them. */
  readonly granted: number;
  /** Connections that it should have, where all have their equal part. */
  readonly fair: number;
}

/** Works out a share: what is too little is taken once others have given it back, so that all never have more than `most`. */
export function shareOf(
  own: { readonly name: string; readonly granted: number; readonly open: number; readonly most: number },
  others: ReadonlyMap<string, number>,
): Granted {
  const { name, granted, open, most } = own;
  const before = [...others.keys()].filter((other) => other < name).length;
  const all = others.size + 1;
  const fair = Math.floor(most / all) + (before < most % all ? 1 : 0);
  if (fair <= granted) return { granted: Math.max(fair, Math.min(open, granted)), fair };
  const taken = [...others.values()].reduce((sum, count) => sum + count, 0);
  return { granted: Math.max(granted, Math.min(fair, most - taken)), fair };
}

// The parties that edge errors are laid to, and what a row of the catalogue says of one error (D63, D64).

interface Category {
  readonly title: string;
  /** What its errors are laid to. */
  readonly responsible: string;
  /** The usual HTTP status; absent: the code itself. */
  readonly status?: number;
  /** Whether the operator of the site has to act, as a rule. */
  readonly ownerAction: boolean;
}

/** The categories by what `error_category` says, in the order of the index. */
export const categories = {
  origin: { title: 'Origin server', responsible: 'The origin server of the site', ownerAction: true },
  platform: { title: 'Platform', responsible: 'The platform', status: 500, ownerAction: false },
  ssl: {
    title: 'TLS between edge and origin',
    responsible: 'The TLS settings of the origin server',
    ownerAction: true,
  },
  access_denied: {
    title: 'Access denied',
    responsible: 'The access rules of the site',
    status: 403,
    ownerAction: true,
  },
  rate_limit: { title: 'Request limits', responsible: 'A limit on requests', status: 429, ownerAction: false },
  dns: { title: 'DNS', responsible: 'The DNS records of the site', status: 530, ownerAction: true },
  config: { title: 'Configuration', responsible: 'The configuration of the site', status: 409, ownerAction: true },
  tls: {
    title: 'TLS between client and edge',
    responsible: 'The TLS settings of the client',
    status: 403,
    ownerAction: false,
  },
  legal: { title: 'Legal restrictions', responsible: 'A legal restriction', status: 451, ownerAction: true },
  worker: { title: 'Scripts', responsible: 'A script of the site', status: 500, ownerAction: true },
  rewrite: { title: 'Rewrite rules', responsible: 'A rewrite rule of the site', status: 500, ownerAction: true },
  snippet: { title: 'Snippets', responsible: 'A snippet of the site', status: 500, ownerAction: true },
  unsupported: {
    title: 'Unsupported features',
    responsible: 'The request of the client',
    status: 501,
    ownerAction: false,
  },
} as const satisfies Record<string, Category>;

/** Which party an error is laid to; the members `error_category` may have. */
export type EdgeCategory = keyof typeof categories;

/** One row of the catalogue, below its category and its code; `EdgeError` tells what its texts are. */
export type CatalogueRow = readonly [
  name: string,
  shortName: string,
  detail: string,
  guidance: string,
  ownerGuidance: string,
  /** What is not as in its category, and the seconds of an error that is retryable. */
  more?: { readonly status?: number; readonly ownerAction?: boolean; readonly retryAfterSeconds?: number },
];

/** The rows of a family by category and code. */
export type CatalogueRows = { readonly [C in EdgeCategory]?: { readonly [Code: number]: CatalogueRow } };

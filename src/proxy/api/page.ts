// Pages of lists in answers (D80).

/** Where a page begins and how long it is. */
export interface Page {
  /** From 1. */
  readonly page: number;
  readonly perPage: number;
}

/** Reads the query's parameters, which the schema has judged. */
export function readPage(query: { readonly page?: string; readonly per_page?: string }): Page {
  return { page: Number(query.page ?? 1), perPage: Number(query.per_page ?? 20) };
}

/** `result_info` of a page with so many entries of so many in all. */
export function pageInfo({ page, perPage }: Page, count: number, total: number): Readonly<Record<string, number>> {
  return { page, per_page: perPage, count, total_count: total, total_pages: Math.ceil(total / perPage) };
}

/** Cuts a page out of a list that is all there. */
export function pageOf<T>(all: readonly T[], { page, perPage }: Page): readonly T[] {
  return all.slice((page - 1) * perPage, page * perPage);
}

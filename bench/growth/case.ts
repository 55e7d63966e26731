// What a case of growth is: something that grows, and what it costs at each size.

/** What was found at one size. */
export interface Point {
  readonly size: number;
  /** In place of the size, where it is no number. */
  readonly label?: string;
  /** By the heads of their columns; none where the size is refused. */
  readonly figures: Readonly<Record<string, number>>;
  /** What refused the size, or a part of it. */
  readonly refusal?: string | undefined;
}

/** A plot of a case: what stands beside its upright axis, and the columns that it draws. */
export interface CasePlot {
  readonly y: string;
  readonly columns: readonly string[];
}

/** Something that grows. */
export interface GrowthCase {
  readonly name: string;
  readonly title: string;
  /** What the sizes count. */
  readonly unit: string;
  readonly sizes: readonly number[];
  /** Sizes that only show that the case works. */
  readonly small: readonly number[];
  /** Plain sentences: what was measured. */
  readonly note: string;
  readonly plot?: CasePlot;
  /** Measures the sizes one after another; each is told as soon as it is there. */
  readonly measure: (sizes: readonly number[]) => AsyncGenerator<Point>;
}

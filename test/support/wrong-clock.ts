// Loaded before a program, by NODE_OPTIONS=--import: its wall clock, in each of its threads, is ahead of the machine's by as many
// milliseconds as POSTERN_TEST_CLOCK_AHEAD says. What measures durations is as it was.

const ahead = Number(process.env['POSTERN_TEST_CLOCK_AHEAD'] ?? 0);
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...parts: readonly []) {
    if (parts.length === 0) super(RealDate.now() + ahead);
    else super(...parts);
  }

  static override now(): number {
    return RealDate.now() + ahead;
  }
} as DateConstructor;

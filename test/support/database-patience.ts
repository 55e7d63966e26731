/**
 * How long changes of a database wait for each other in tests, in milliseconds: hundreds at once take longer than the five seconds
 * of a gateway where the machine is busy, and what they race for is not the time.
 */
export const testPatienceMs = 60_000;

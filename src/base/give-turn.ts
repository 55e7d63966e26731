// Where long work on a message or a request lets others go on: reading its JSON, its digest, its line ends, its body.

import { createSlices } from './slices.ts';

/**
 * The one of the whole process. Called between two small pieces of work, it resolves at once while the slice that runs
 * has time left, and otherwise in a later turn of the event loop: of all that is worked on, by whatever door it came,
 * only one has a slice in a turn, however many there are.
 */
export const giveTurn: () => Promise<void> = createSlices();

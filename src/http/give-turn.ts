// Where long work on a body lets others go on: reading its JSON, its digest, its line ends.

import { createSlices } from '../base/slices.ts';

/**
 * Called between two small pieces of work. It resolves at once while the slice that runs has time left, and otherwise in a
 * later turn of the event loop: of all bodies that are worked on only one has a slice in a turn, however many there are.
 */
export const giveTurn: () => Promise<void> = createSlices();

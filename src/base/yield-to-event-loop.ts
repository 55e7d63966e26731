// Lets others go on during long work on a message or a request: reading its JSON, its digest, its line ends, its body.

import { createSlices } from './slices.ts';

/**
 * The turn giver of the whole process; call it between two small pieces of work. It resolves at once while the running slice
 * has time left, and otherwise in a later turn of the event loop. However many messages and requests are worked on, by SMTP
 * or HTTP, only one of them has a slice in a turn.
 */
export const yieldToEventLoop: () => Promise<void> = createSlices();

// The states of a recipient in the spool.

/** A recipient's state. `failed` and `delivered` are final. */
export type RecipientState = 'queued' | 'delivered' | 'failed';

// How far the spool is with a recipient.

/** A recipient's state. `failed` and `delivered` are final. */
export type RecipientState = 'queued' | 'delivered' | 'failed';

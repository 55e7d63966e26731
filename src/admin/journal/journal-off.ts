// What the endpoints say where the journal is off.

/** Says that the journal is off, and how to turn it on. */
export const journalOff =
  'The journal is off, so messages get no entries. To turn it on, set journal.enabled: true (or leave it out) and restart';

/**
 * The members of an answer that tell whether the journal is off, in the envelope's `messages`.
 * @param isOn `journal.enabled`
 */
export function journalNote(isOn: boolean): { readonly messages?: readonly { readonly message: string }[] } {
  return isOn ? {} : { messages: [{ message: journalOff }] };
}

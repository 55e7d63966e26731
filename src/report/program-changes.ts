// What to change in well-known mailers so that they no longer send a field; docs/mailers.md tells how each was tried.

/** One change. */
interface ProgramChange {
  /** Matches the mailer's mark. */
  readonly mailer: RegExp;
  /** The field that the program then no longer sends, in lower case. */
  readonly field: string;
  readonly text: string;
}

const changes: readonly ProgramChange[] = [
  { mailer: /s-nail|heirloom/i, field: 'user-agent', text: 'set stealthmua=noagent' },
  { mailer: /mailutils/i, field: 'user-agent', text: 'unset xmailer' },
  { mailer: /mutt/i, field: 'user-agent', text: 'set user_agent = no' },
  { mailer: /mutt/i, field: 'mail-followup-to', text: 'set followup_to = no' },
  { mailer: /thunderbird/i, field: 'user-agent', text: 'set the preference mailnews.headers.sendUserAgent to false' },
  { mailer: /thunderbird/i, field: 'autocrypt', text: 'switch Autocrypt headers off in the end-to-end settings' },
  { mailer: /gnus/i, field: 'user-agent', text: 'remove User-Agent from message-required-mail-headers' },
  { mailer: /phpmailer/i, field: 'disposition-notification-to', text: 'leave ConfirmReadingTo empty' },
  { mailer: /mime::lite/i, field: 'content-length', text: 'leave Encoding out, or use base64' },
];

/** The change after which a known mailer no longer sends a field. @param mailer the mailer's mark, as events have it */
export function programChange(mailer: string | undefined, field: string): string | undefined {
  if (mailer === undefined) return undefined;
  return changes.find((one) => one.field === field.toLowerCase() && one.mailer.test(mailer))?.text;
}

// The client of Postern: sends messages through its REST door with the interface of a runtime binding (D49). Needs
// nothing but what Node, browsers, workers, Deno and Bun have in common: fetch, AbortSignal, TextEncoder, btoa.

export { type BindEmailOptions, bindEmail, type EmailFromEnvOptions, emailFromEnv } from './bind-email.ts';
export type { Bytes } from './bytes.ts';
export type { EmailBindingOptions, SendOptions } from './check-options.ts';
export { createEmailBinding, type EmailBinding } from './email-binding.ts';
export { EmailError, type EmailErrorFacts, type EmailViolation } from './email-error.ts';
export type {
  EmailAddress,
  EmailAddresses,
  EmailAttachment,
  EmailHeaders,
  MessageFields,
} from './message-fields.ts';
export { EmailMessage, type MimeMessage } from './mime-message.ts';
export type { SendResult } from './send-request.ts';

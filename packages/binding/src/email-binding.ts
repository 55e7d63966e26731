// The client: sends messages through Postern's REST door with the interface of a runtime binding (D49).

import {
  accessOf,
  checkSendOptions,
  type EmailBindingOptions,
  type GivenOptions,
  type OptionNames,
  optionNames,
  type SendOptions,
} from './check-options.ts';
import { type MessageFields, writeMessageFields } from './message-fields.ts';
import { isMimeMessage, type MimeMessage, writeMimeMessage } from './mime-message.ts';
import { type SendResult, sendRequest } from './send-request.ts';

/** Sends messages. */
export interface EmailBinding {
  /**
   * Sends one message, described by its fields or finished (it has `raw`). Resolves when it is safe on the server's disk.
   * @throws EmailError with `.code` and `.violations`; the signal's reason when that ended it; TypeError for a message
   *   that is no object, or for an invalid option
   */
  send(message: MessageFields | MimeMessage, options?: SendOptions): Promise<SendResult>;
}

function bodyOf(message: MessageFields | MimeMessage): { readonly path: 'send' | 'send_raw'; readonly json: string } {
  if (typeof message !== 'object' || message === null) throw new TypeError('message must be an object');
  return isMimeMessage(message)
    ? { path: 'send_raw', json: writeMimeMessage(message) }
    : { path: 'send', json: writeMessageFields(message) };
}

/**
 * Makes a binding of options that may have come from elsewhere than an object of options.
 * @param names what a refusal calls them
 * @throws TypeError as `createEmailBinding`
 */
export function bindingOf(given: GivenOptions, names: OptionNames): EmailBinding {
  const access = accessOf(given, names);
  return {
    async send(message, options = {}) {
      checkSendOptions(options);
      options.signal?.throwIfAborted();
      const { path, json } = bodyOf(message);
      return await sendRequest(access, { path, body: new TextEncoder().encode(json), options });
    },
  };
}

/**
 * Makes a binding to one account of one Postern.
 * @throws TypeError for options that cannot work, which names the option and its rule; it never quotes the token
 */
export function createEmailBinding(options: EmailBindingOptions): EmailBinding {
  return bindingOf(options, optionNames);
}

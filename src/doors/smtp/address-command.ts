// Reads the lines of MAIL and RCPT: path and parameters (RFC 5321 §4.1.1.2-3, §4.1.2; D40b).

import { isAscii, isUtf8 } from 'node:buffer';
import { type Path, readPath } from '../../mail/address/path.ts';
import { isEnvid, readRet } from '../../mail/envelope.ts';
import { type Answer, replies } from './replies.ts';

/** Known parameters and whether they take a value (D40b); what the values of DSN may be is judged afterwards. */
const parameters = {
  MAIL: {
    SIZE: 'value',
    BODY: 'value',
    SMTPUTF8: 'flag',
    REQUIRETLS: 'flag',
    RET: 'value',
    ENVID: 'value',
    AUTH: 'value',
  },
  RCPT: { NOTIFY: 'value', ORCPT: 'value' },
} as const satisfies Record<string, Record<string, 'value' | 'flag'>>;

const syntax = {
  MAIL: { prefix: /^MAIL[ \t]+FROM:[ \t]*/i, wrong: replies.mailSyntax, badPath: replies.badSender },
  RCPT: { prefix: /^RCPT[ \t]+TO:[ \t]*/i, wrong: replies.rcptSyntax, badPath: replies.badRecipient },
} as const;

/** A well-formed MAIL or RCPT. */
export interface AddressCommand {
  readonly path: Path;
  /** Keywords in upper case; a flag's value is ''. */
  readonly parameters: ReadonlyMap<string, string>;
}

const none: ReadonlyMap<string, string> = new Map();
const keyword = /^[A-Za-z0-9][A-Za-z0-9-]*$/;
// RFC 5321 §4.1.2 esmtp-value, plus the non-ASCII of RFC 6531 §3.3 (ORCPT), plus `=`, which some clients put into AUTH.
const value = /^[\x21-\x7e\u{a0}-\u{10ffff}]+$/u;

function parameterError(text: string): Answer {
  return { code: 501, enhanced: '5.5.4', text };
}

function readParameters(verb: 'MAIL' | 'RCPT', text: string): ReadonlyMap<string, string> | Answer {
  const known: Readonly<Record<string, 'value' | 'flag'>> = parameters[verb];
  const found = new Map<string, string>();
  for (const word of text.split(' ')) {
    if (word === '') continue;
    const equals = word.indexOf('=');
    const name = (equals < 0 ? word : word.slice(0, equals)).toUpperCase();
    const given = equals < 0 ? '' : word.slice(equals + 1);
    if (!keyword.test(name)) return parameterError('Malformed parameter');
    const kind = Object.hasOwn(known, name) ? known[name] : undefined;
    if (kind === undefined)
      return { code: 555, enhanced: '5.5.4', text: `Parameter ${name.slice(0, 60)} is not known` };
    if (found.has(name)) return parameterError(`Parameter ${name} stands twice`);
    if (kind === 'flag' && equals >= 0) return parameterError(`Parameter ${name} takes no value`);
    if (kind === 'value' && !value.test(given)) return parameterError(`Parameter ${name} needs a value`);
    found.set(name, given);
  }
  return found;
}

/** Reads a line without CRLF. @param smtputf8 for RCPT: the transaction has SMTPUTF8; a MAIL line says so itself */
function readCommand(verb: 'MAIL' | 'RCPT', line: Buffer, smtputf8: boolean): AddressCommand | Answer {
  const ascii = isAscii(line);
  // D40b: judged on the raw line, before a U-label becomes ASCII.
  if (!ascii && !isUtf8(line)) return replies.needsSmtputf8;
  const text = ascii ? line.toString('latin1') : line.toString('utf8');
  const mayBeUtf8 = verb === 'MAIL' ? / SMTPUTF8(?: |$)/i.test(text) : smtputf8;
  if (!ascii && !mayBeUtf8) return replies.needsSmtputf8;
  const { prefix, wrong, badPath } = syntax[verb];
  const start = prefix.exec(text)?.[0].length;
  if (start === undefined) return wrong;
  const path = readPath(text, start);
  if (!path) return badPath;
  if (ascii && path.end === text.length) return { path, parameters: none };
  const found = readParameters(verb, text.slice(path.end));
  if ('code' in found) return found;
  // The word SMTPUTF8 found above may stand inside a quoted local part.
  if (!ascii && verb === 'MAIL' && !found.has('SMTPUTF8')) return replies.needsSmtputf8;
  return { path, parameters: found };
}

/** Gives the reply to a parameter of MAIL whose value is none that it may have; undefined where all are well. */
function wrongMailParameter(parameters: ReadonlyMap<string, string>, secure: boolean): Answer | undefined {
  if (parameters.size === 0) return undefined;
  const size = parameters.get('SIZE');
  const body = parameters.get('BODY')?.toUpperCase();
  if (size !== undefined && !/^\d{1,20}$/.test(size)) return replies.badSize;
  if (body !== undefined && body !== '7BIT' && body !== '8BITMIME') return replies.badBody;
  if (parameters.has('REQUIRETLS') && !secure) return replies.requireTlsWithoutTls;
  const [ret, envid] = [parameters.get('RET'), parameters.get('ENVID')];
  if (ret !== undefined && readRet(ret) === undefined) return replies.badRet;
  return envid === undefined || isEnvid(envid) ? undefined : replies.badEnvid;
}

/** Reads a MAIL line. @param line without CRLF @param secure under TLS @returns path, parameters and SIZE (or 0), or the refusal */
export function readMail(line: Buffer, secure: boolean): (AddressCommand & { readonly size: number }) | Answer {
  const command = readCommand('MAIL', line, false);
  if ('code' in command) return command;
  const { parameters } = command;
  return wrongMailParameter(parameters, secure) ?? { ...command, size: Number(parameters.get('SIZE') ?? 0) };
}

/** Reads a RCPT line. @param line without CRLF @param smtputf8 of the transaction @returns its path and parameters, or the refusal */
export function readRcpt(line: Buffer, smtputf8: boolean): AddressCommand | Answer {
  return readCommand('RCPT', line, smtputf8);
}

// Writes the report as text and as JSON. Clients wrote much of it, so characters that control a terminal are escaped.

import { escapeCharacters } from '../../base/escape-text.ts';
import type { Cure } from './cure.ts';
import type { CredentialReport, MailerReport, Problem } from './findings.ts';
import { credentialLines, escapeUnit, setSentences, yamlLines } from './settings.ts';

/** Control characters, and marks that reorder or break text. */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Escapes text of others for one line of a terminal. */
export function escapedText(text: string): string {
  return escapeCharacters(text, steering);
}

/** Writes a value as JSON on one line, with such characters escaped. */
export function printableJson(value: unknown): string {
  // JSON escapes one unit of UTF-16 at a time.
  return JSON.stringify(value).replace(steering, (character) => character.split('').map(escapeUnit).join(''));
}

/** A count with its word: `1 message`, `1,204 messages`. */
export function counted(count: number, word: string): string {
  return `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
}

/** A share in percent with one decimal. It is never 100 % while one is missing. */
export function share(part: number, all: number): string {
  if (all === 0) return '-';
  return `${(Math.floor((part / all) * 1000) / 10).toFixed(1)} %`;
}

function time(ms: number | undefined): string {
  return ms === undefined ? '' : `, last ${new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')}`;
}

function cureText(cure: Cure): string {
  if (cure.kind === 'program') return `in the program: ${cure.text}`;
  const lines = yamlLines(credentialLines(cure.settings)).join('; ');
  return cure.instead === undefined ? lines : `${lines}   or in the program: ${cure.instead}`;
}

function problemLines({ code, message, count, lastSeen, examples, cure, isCured }: Problem): string[] {
  const cured = isCured ? ' (the configuration has it by now)' : '';
  const shown = examples.length === 0 ? [] : [`            for example ${examples.map(escapedText).join(', ')}`];
  return [
    `    ${String(count).padStart(6)}  ${escapedText(code)}: ${escapedText(message)}${time(lastSeen)}`,
    `            ${escapedText(cureText(cure))}${cured}`,
    ...shown,
  ];
}

function mailerLines({ mailer, refused, recipients, observed, lastSeen, problems }: MailerReport): string[] {
  const told = [
    ...(refused > 0 ? [`${counted(refused, 'message')} refused`] : []),
    ...(recipients > 0 ? [`${counted(recipients, 'recipient')} refused`] : []),
    ...(observed > 0 ? [`${counted(observed, 'message')} let pass while observed`] : []),
  ];
  return [`  ${escapedText(mailer)}: ${told.join(', ')}${time(lastSeen)}`, ...problems.flatMap(problemLines), ''];
}

function proposalLines({ account, credential, proposal }: CredentialReport): string[] {
  const lines = yamlLines(proposal);
  if (lines.length === 0) return [];
  return [
    `  Put into the configuration, at credential "${escapedText(credential)}" of account "${escapedText(account)}":`,
    '',
    ...lines.map((line) => `      ${line}`),
    '',
    ...setSentences(proposal).flatMap((sentence) => [`  ${sentence}`, '']),
  ];
}

/** The report of one credential as text: lines without their ends. */
export function credentialText(report: CredentialReport): readonly string[] {
  const { account, credential, accepted, refused, observed, mailers } = report;
  const all = accepted + refused;
  const name = [account, credential]
    .filter((one) => one !== '')
    .map(escapedText)
    .join('/');
  const watched = observed === 0 ? '' : `, ${counted(observed, 'message')} of the accepted only because it is observed`;
  return [
    `${name === '' ? '(nobody)' : name}: ${accepted.toLocaleString('en')} of ${counted(all, 'message')} accepted (${share(accepted, all)})${watched}`,
    '',
    ...mailers.flatMap(mailerLines),
    ...proposalLines(report),
  ];
}

function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

function cureJson(cure: Cure): object {
  if (cure.kind === 'program') return cure;
  const { kind, settings, instead } = cure;
  return { kind, lines: yamlLines(credentialLines(settings)), instead };
}

function problemJson({ firstSeen, lastSeen, cure, ...problem }: Problem): object {
  return { ...problem, lastSeen: isoTime(lastSeen), firstSeen: isoTime(firstSeen), cure: cureJson(cure) };
}

/** The report of one credential as a value for JSON, with times in ISO 8601 and lines of configuration as text. */
export function credentialJson(report: CredentialReport): object {
  const { account, credential, accepted, refused, observed, mailers, proposal } = report;
  return {
    ...{ account, credential, accepted, refused, observed },
    mailers: mailers.map(({ lastSeen, problems, ...mailer }) => ({
      ...{ ...mailer, lastSeen: isoTime(lastSeen), problems: problems.map(problemJson) },
    })),
    proposal: yamlLines(proposal),
  };
}

// Prints what postern-lint has found: for people, as JSON, and as SARIF 2.1.0, which code hosts show beside the lines.

import { escapeCharacters } from '../../../../src/base/escape-text.ts';
import { type Rejection, rejections } from '../../../../src/pipeline/policy/rejections.ts';
import type { Violation } from '../types.ts';

/** One message. */
export interface Finding {
  /** The file, with the number of the message behind it where it holds several. */
  readonly file: string;
  readonly verdict: 'accepted' | 'refused' | 'unread';
  readonly reasons: readonly (Violation & {
    /** The path of the header's page on a gateway. */
    readonly page?: string;
    /** The line of the file on which the field begins, from 1. */
    readonly line?: number;
  })[];
  /** Why it could not be read. */
  readonly why?: string;
}

/** How findings are printed. */
export interface PrintOptions {
  /** The URL of a gateway, without a slash at its end. */
  readonly pages?: string | undefined;
  readonly quiet: boolean;
}

/** Text of a message without what could control a terminal or turn it around. */
function printable(text: string): string {
  return escapeCharacters(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu);
}

function linesOf({ file, verdict, reasons, why }: Finding, { pages, quiet }: PrintOptions): string[] {
  const name = printable(file);
  if (verdict === 'unread') return [`${name}: not read: ${printable(why ?? '')}`];
  if (verdict === 'accepted') return quiet ? [] : [`${name}: accepted`];
  return reasons.map(({ code, message, line, page }) => {
    const place = line === undefined ? name : `${name}:${line}`;
    const link = pages === undefined || page === undefined ? '' : ` (${pages}${page})`;
    return `${place}: ${code}: ${printable(message)}${link}`;
  });
}

function asText(found: readonly Finding[], options: PrintOptions): string {
  const count = (verdict: Finding['verdict']): number => found.filter((finding) => finding.verdict === verdict).length;
  const unread = count('unread') === 0 ? '' : `, ${count('unread')} not read`;
  const lines = found.flatMap((finding) => linesOf(finding, options));
  return [...lines, `${count('accepted')} accepted, ${count('refused')} refused${unread}`, ''].join('\n');
}

function asJson(found: readonly Finding[], { pages, quiet }: PrintOptions): string {
  const files = found
    .filter(({ verdict }) => !quiet || verdict !== 'accepted')
    .map(({ reasons, ...finding }) => ({
      ...finding,
      reasons: reasons.map(({ page, ...reason }) => ({
        ...reason,
        ...(page === undefined ? {} : { page: `${pages ?? ''}${page}` }),
      })),
    }));
  return `${JSON.stringify({ accepted: found.every(({ verdict }) => verdict === 'accepted'), files }, undefined, 2)}\n`;
}

/** A path as SARIF has it: relative, with `/`, percent-encoded; the number of a message in an mbox is no part of it. */
function uriOf(file: string): string {
  return file.replace(/:\d+$/, '').split(/[/\\]/).map(encodeURIComponent).join('/');
}

function asSarif(found: readonly Finding[], { pages }: PrintOptions): string {
  const rules = Object.entries<Rejection>(rejections).map(([id, { when, remedy }]) => ({
    id,
    shortDescription: { text: when },
    help: { text: remedy },
    defaultConfiguration: { level: 'error' },
  }));
  const results = found.flatMap(({ file, reasons }) =>
    reasons.map(({ code, message, line, page }) => ({
      ruleId: code,
      level: 'error',
      message: {
        text: pages === undefined || page === undefined ? message : `${message} (${pages}${page})`,
      },
      locations: [
        {
          physicalLocation: {
            artifactLocation: { uri: uriOf(file) },
            ...(line === undefined ? {} : { region: { startLine: line } }),
          },
        },
      ],
    })),
  );
  const notifications = found.flatMap(({ file, verdict, why = '' }) =>
    verdict === 'unread' ? [{ level: 'error', message: { text: `${file}: ${why}` } }] : [],
  );
  const run = {
    tool: { driver: { name: 'postern-lint', version: '0.1.0', rules } },
    invocations: [{ executionSuccessful: notifications.length === 0, toolExecutionNotifications: notifications }],
    results,
  };
  const document = { $schema: 'https://json.schemastore.org/sarif-2.1.0.json', version: '2.1.0', runs: [run] };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** The forms by the word that asks for each. */
export const formats = { text: asText, json: asJson, sarif: asSarif } as const;

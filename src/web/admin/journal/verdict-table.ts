// Makes the table of verdicts of a message from what the journal keeps: one letter for each field, the reasons, and the header
// sections where they are kept. The rules are the catalogue's, and the cures those of the report.

import type { Credential } from '../../../accounts/account.ts';
import { readMessage } from '../../../mail/header/header-reader.ts';
import { readRawText } from '../../../mail/header/raw-text.ts';
import { shownVerdicts } from '../../../pipeline/policy/explain.ts';
import { readVerdict } from '../../../pipeline/policy/field-verdicts.ts';
import type { Cure } from '../../../pipeline/report/cure.ts';
import { cureOf } from '../../../pipeline/report/cure.ts';
import { credentialLines, type Setting, settingKey } from '../../../pipeline/report/settings.ts';
import { setSentences, yamlLines } from '../../../pipeline/report/yaml-lines.ts';
import type { JournalEntry } from '../../../spool/journal/journal.ts';
import type { JournalContent, JournalReason } from '../../../spool/journal/journal-row.ts';
import type { CureJson, VerdictRow } from './schemas.ts';

/**
 * Shows a cure: the lines of the credential's entry, its present ones among them. They bring in all of `together`, since lines
 * for each reason alone would repeat their keys when somebody puts in those of several.
 * @param together the settings that cure this reason and the others that are shown beside it, of one credential
 * @param present the credential as it is configured now; absent: it is no longer there
 */
export function cureJson(
  cure: Cure,
  {
    name,
    together,
    present,
  }: { readonly name: string; readonly together: readonly Setting[]; readonly present: Credential | undefined },
): CureJson {
  if (cure.kind === 'program') return { kind: 'program', text: cure.text };
  const own = yamlLines(credentialLines(cure.settings)).join('; ');
  const settings = new Map([...together, ...cure.settings].map((setting) => [settingKey(setting), setting]));
  const lines = credentialLines([...settings.values()], present);
  const yaml = yamlLines(lines).join('\n');
  const sets = setSentences(lines)
    .map((sentence) => ` ${sentence}`)
    .join('');
  const place = name === '' ? 'the credential' : `credential "${name}"`;
  const others =
    settings.size > cure.settings.length ? ` The lines also cure the other reasons; this one needs ${own}.` : '';
  const text = `Put these lines into the configuration, at ${place}, and run postern reload.`;
  const instead = cure.instead === undefined ? '' : ` In place of that the program can be changed. ${cure.instead}`;
  return { kind: 'config', text: `${text}${instead}${others}${sets}`, yaml };
}

/** Characters of a value, and of a name, that are shown. */
const valueCharacters = 4096;
const nameCharacters = 200;

/** What the table is made from. */
export interface VerdictParts {
  readonly entry: JournalEntry;
  readonly content: JournalContent | undefined;
  /** The credential as it is configured now. */
  readonly credential: Credential | undefined;
  readonly sendingDomains: readonly string[];
}

interface ShownField {
  readonly name: string;
  readonly value: string | null;
}

function valueOf(rawBytes: Buffer): string {
  const text = readRawText(rawBytes.subarray(0, valueCharacters * 4), {
    legacyCharset: 'windows-1252',
    folded: true,
    structured: false,
  });
  return text.trim().slice(0, valueCharacters).toWellFormed();
}

function fieldsOf(head: Buffer | undefined): readonly ShownField[] | undefined {
  return head && readMessage(head).fields.map(({ name, rawBytes }) => ({ name, value: valueOf(rawBytes) }));
}

function receivedFields({ entry, content }: VerdictParts): readonly ShownField[] {
  const kept = fieldsOf(content?.receivedHead);
  if (kept) return kept;
  const names = entry.more.names ?? '';
  return names === '' ? [] : names.split('\n').map((name) => ({ name, value: null }));
}

/** Where the reason is a word of the request rather than a header, the pointer says so. */
function placeOf({ field, pointer }: JournalReason): string {
  return field ?? pointer ?? '';
}

/** Finds the cure of each reason, with the lines for all reasons of the message that settings can cure. */
function createCure({ entry, credential: present, sendingDomains }: VerdictParts, fieldNames: readonly string[]) {
  const { mailer, sender, credential: name = '' } = entry.facts;
  const facts = { mailer, senderPath: sender, sendingDomains, fieldNames };
  const cures = new Map((entry.more.reasons ?? []).map((reason) => [reason, cureOf(reason, facts)]));
  const together = [...cures.values()].flatMap((cure) => (cure.kind === 'config' ? cure.settings : []));
  return (reason: JournalReason): CureJson =>
    cureJson(cures.get(reason) ?? cureOf(reason, facts), { name, together, present });
}

/** Makes the table: the fields that came, reasons about no field of them, and the fields that were added. */
export function verdictTable(parts: VerdictParts): {
  readonly rows: readonly VerdictRow[];
  readonly reasons: readonly (JournalReason & { readonly cure: CureJson })[];
} {
  const { entry, content } = parts;
  const { verdicts = '', reasons = [] } = entry.more;
  const fields = receivedFields(parts);
  const cure = createCure(
    parts,
    fields.map(({ name }) => name),
  );
  const reasonOf = new Map(reasons.map((reason) => [placeOf(reason).toLowerCase(), reason]));
  const kept = new Set<string>();
  const rows = fields.map(({ name, value }, index): VerdictRow => {
    const { verdict, rule, standard, isObserved } = readVerdict(verdicts[index] ?? '', name);
    if (verdict === 'lifted' || verdict === 'mime' || verdict === 'admitted' || verdict === 'trace')
      kept.add(name.toLowerCase());
    const reason = verdict === 'refused' || isObserved ? reasonOf.get(name.toLowerCase()) : undefined;
    return {
      ...{ name: name.slice(0, nameCharacters), value, verdict: shownVerdicts[verdict], rule },
      ...(standard === undefined ? {} : { reference: standard }),
      ...(reason ? { code: reason.code, message: reason.message, cure: cure(reason) } : {}),
    };
  });
  const added = (fieldsOf(content?.sentHead) ?? [])
    .filter(({ name }) => !kept.has(name.toLowerCase()))
    .map(({ name, value }): VerdictRow => {
      const { rule, standard } = readVerdict('', name);
      return { ...{ name, value, verdict: 'kept', added: true, rule }, ...(standard ? { reference: standard } : {}) };
    });
  return { rows: [...rows, ...added], reasons: reasons.map((reason) => ({ ...reason, cure: cure(reason) })) };
}

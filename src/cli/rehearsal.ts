// The rehearsal of `postern check`: what of an archive the gateway would refuse, and how much the proposed configuration would cure.

import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Submitter } from '../accounts/account.ts';
import { isArchive, readArchive } from '../pipeline/report/archive/archive-files.ts';
import { archivedMessage } from '../pipeline/report/archive/archived-message.ts';
import { type CredentialReport, Findings } from '../pipeline/report/findings.ts';
import {
  counted,
  credentialJson,
  credentialText,
  escapedText,
  printableJson,
  share,
} from '../pipeline/report/print.ts';
import { type RehearsalParts, rehearse } from '../pipeline/report/rehearse.ts';
import { withLines } from '../pipeline/report/settings.ts';
import type { CommandIo } from './command/command.ts';
import { tellProgress } from './command/tell-progress.ts';

/** How many files that are no messages are named; the rest are only counted. */
const namedSkips = 20;
/** How often the proposal is renewed at most: curing one fault can reveal another one behind it. */
const rounds = 3;

interface Reading {
  readonly findings: Findings;
  readonly messages: number;
  readonly skipped: readonly { readonly name: string; readonly why: string }[];
  readonly skippedCount: number;
  /** Number of messages from which fields were set aside that delivery or the mailbox had written. */
  readonly cleaned: number;
}

/** A rehearsal: what is read, as whom it is judged, and how it is reported. */
export interface Rehearsal {
  readonly paths: readonly string[];
  readonly parts: RehearsalParts;
  /** Judge everything again with the proposed settings. */
  readonly apply: boolean;
  readonly json: boolean;
  /** Tells where the proposed lines go in the file; an empty text where that cannot be told. */
  readonly change: (proposal: CredentialReport['proposal']) => string;
}

/** The paths of a command line. Links that are named themselves are followed, links below a named folder are not. */
export function namedPaths(args: readonly string[], cwd: string): Promise<readonly string[]> {
  return Promise.all(args.map((arg) => realpath(resolve(cwd, arg)).catch(() => resolve(cwd, arg))));
}

/** Whether a command line names a folder or an mbox file, and not only files of one message each. */
export async function namesArchive(paths: readonly string[]): Promise<boolean> {
  for (const path of paths) if (await isArchive(path)) return true;
  return false;
}

async function read({ paths, parts }: Rehearsal, io: CommandIo, what: string): Promise<Reading> {
  const tell = tellProgress(io);
  const findings = new Findings();
  const skipped: { name: string; why: string }[] = [];
  let [messages, skippedCount, cleaned] = [0, 0, 0];
  for await (const entry of readArchive(paths, { most: parts.messageBytes })) {
    if (entry.kind === 'skipped') {
      skippedCount += 1;
      if (skipped.length < namedSkips) skipped.push(entry);
      continue;
    }
    const message = archivedMessage(entry);
    findings.add(await rehearse(message, parts));
    messages += 1;
    cleaned += message.setAside > 0 ? 1 : 0;
    tell(`${what}: ${counted(messages, 'message')}`);
  }
  return { findings, messages, skipped, skippedCount, cleaned };
}

function reportOf({ findings }: Reading, { account, credential }: Submitter): CredentialReport {
  const [found] = findings.report((_, name) => account.credentials.get(name) ?? credential);
  if (found) return found;
  const nothing = { accepted: 0, refused: 0, observed: 0, mailers: [], settings: [], proposal: {} };
  return { account: account.name, credential: credential.name, ...nothing };
}

interface Applied {
  /** What was found with the proposal in force, and the proposal with everything that was added to it on the way. */
  readonly after: CredentialReport;
  readonly proposal: CredentialReport['proposal'];
}

/** Judges again with the proposal, and adds what that reveals, until nothing more is proposed. */
async function applied(first: CredentialReport, rehearsal: Rehearsal, io: CommandIo): Promise<Applied> {
  const { account, credential } = rehearsal.parts.submitter;
  let { proposal } = first;
  for (let round = 1; ; round += 1) {
    const changed = withLines(credential, proposal);
    const submitter = {
      account: { ...account, credentials: new Map([...account.credentials, [credential.name, changed]]) },
      credential: changed,
    };
    const parts = { ...rehearsal.parts, submitter };
    const after = reportOf(await read({ ...rehearsal, parts }, io, 'Judging again'), submitter);
    if (after.settings.length === 0 || round === rounds) return { after, proposal };
    proposal = after.proposal;
  }
}

function tellReading({ messages, skipped, skippedCount, cleaned, findings }: Reading, io: CommandIo): void {
  for (const { name, why } of skipped) io.stderr.write(`${escapedText(name)}: passed over: ${escapedText(why)}\n`);
  if (skippedCount > skipped.length)
    io.stderr.write(`${counted(skippedCount - skipped.length, 'file')} more passed over\n`);
  if (cleaned > 0)
    io.stderr.write(
      `Of ${counted(cleaned, 'message')} fields were set aside that delivery or the mailbox had written\n`,
    );
  if (findings.unlisted > 0)
    io.stderr.write(`${counted(findings.unlisted, 'reason')} of further kinds are not listed: there are too many\n`);
  if (messages === 0) io.stderr.write('There is no message to judge\n');
}

function shareLine(when: string, { accepted, refused }: CredentialReport): string {
  const all = accepted + refused;
  return `${when} ${accepted.toLocaleString('en')} of ${counted(all, 'message')} accepted (${share(accepted, all)})`;
}

function tellText(
  report: CredentialReport,
  { found, change }: Pick<Rehearsal, 'change'> & { readonly found: Applied | undefined },
  io: CommandIo,
): void {
  const proposal = found?.proposal ?? report.proposal;
  const where = Object.keys(proposal).length > 0 ? change(proposal) : '';
  io.stdout.write(`${credentialText({ ...report, proposal }).join('\n')}\n${where}`);
  if (!found) return;
  io.stdout.write(`${shareLine('Without these lines', report)}\n${shareLine('With these lines   ', found.after)}\n`);
  if (found.after.refused === 0) return;
  io.stdout.write('\nWhat is still refused then, and no setting cures:\n\n');
  io.stdout.write(
    `${credentialText({ ...found.after, proposal: {} })
      .slice(2)
      .join('\n')}\n`,
  );
}

/** Reads the archive, judges its messages and prints the report. @returns the exit code: 1 where one would be refused */
export async function rehearseArchive(rehearsal: Rehearsal, io: CommandIo): Promise<number> {
  const reading = await read(rehearsal, io, 'Judging');
  const report = reportOf(reading, rehearsal.parts.submitter);
  tellReading(reading, io);
  const found = rehearsal.apply && report.settings.length > 0 ? await applied(report, rehearsal, io) : undefined;
  if (rehearsal.json) {
    const { messages, skippedCount: skipped, cleaned } = reading;
    const after = found ? { after: credentialJson({ ...found.after, proposal: {} }) } : {};
    const before = credentialJson({ ...report, proposal: found?.proposal ?? report.proposal });
    io.stdout.write(`${printableJson({ ...before, messages, skipped, cleaned, ...after })}\n`);
  } else {
    tellText(report, { found, change: rehearsal.change }, io);
  }
  return (found?.after ?? report).refused > 0 || reading.messages === 0 ? 1 : 0;
}

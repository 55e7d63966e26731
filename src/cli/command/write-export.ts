// What the commands share that write configuration for other proxies.

import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { errorMessage } from '../../base/errors.ts';
import type { CommandIo } from './command.ts';

/** The authorities of a Debian system. */
export const defaultCaFile = '/etc/ssl/certs/ca-certificates.crt';

/** The options that tell what is written where. */
export function exportOptions(formats: readonly string[]) {
  return {
    format: { value: 'FORMAT', short: 'f', summary: `${formats.join(', ')} (required)` },
    output: { value: 'FILE', short: 'o', summary: 'write to FILE (default: standard output)' },
  } as const;
}

/** A thing that the format cannot hold, or holds otherwise. */
interface Gap {
  /** `zone example.com`; absent where it is about all. */
  readonly subject?: string;
  readonly leftOut: boolean;
  readonly text: string;
}

/** Tells the gaps, and writes the text to the file or standard output, but with `strict` not where anything is left out. @returns the exit code */
export function writeExport(
  io: CommandIo,
  { output, strict }: { readonly output?: string; readonly strict?: boolean },
  { text, gaps }: { readonly text: string; readonly gaps: readonly Gap[] },
): number {
  for (const { subject, leftOut, text: gap } of gaps)
    io.stderr.write(
      subject === undefined ? `note: ${gap}\n` : `${subject}: ${leftOut ? 'NOT EXPORTED: ' : ''}${gap}\n`,
    );
  if (strict && gaps.some(({ leftOut }) => leftOut)) return 1;
  if (output === undefined) io.stdout.write(text);
  else {
    try {
      writeFileSync(resolve(io.cwd, output), text);
    } catch (cause) {
      throw new Error(`Cannot write "${resolve(io.cwd, output)}": ${errorMessage(cause)}`, { cause });
    }
  }
  return 0;
}

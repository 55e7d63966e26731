// The policy package as its build makes it, in a folder of its own for each test file.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JudgeInput, Judgement, JudgeOptions } from '../../packages/policy/src/types.ts';

/** The folder of the package. */
export const policyFolder = resolve(import.meta.dirname, '../../packages/policy');

/** The built entry. */
export interface PolicyModule {
  readonly judge: (input: JudgeInput, options?: JudgeOptions) => Judgement;
}

let folder: string | undefined;

/** Builds the package and gives the folder that the build wrote. */
export function builtPolicyFolder(): string {
  if (folder !== undefined) return folder;
  folder = mkdtempSync(join(tmpdir(), 'postern-policy-'));
  execFileSync(process.execPath, ['build/build.mjs', folder], { cwd: policyFolder });
  return folder;
}

/** The text of a built file. */
export function builtPolicyFile(name: string): string {
  return readFileSync(join(builtPolicyFolder(), name), 'utf8');
}

/** Loads the built entry. */
export async function builtPolicy(): Promise<PolicyModule> {
  // A text, so that it is not looked for before it is built.
  const url = pathToFileURL(join(builtPolicyFolder(), 'index.js')).href;
  return (await import(/* @vite-ignore */ url)) as PolicyModule;
}

// The packed client as a bundler makes one file of it, for runtimes that are neither Node nor any other in particular.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'rolldown';
import type { PackedProject } from './packed-package.ts';

/** A bundled program. */
export interface Bundle {
  /** A classic script. */
  readonly code: string;
  /** What it would still import, such as a module of Node. */
  readonly imports: readonly string[];
}

/**
 * Bundles a program of the project for no platform in particular: a module that only one platform has stays an import.
 * @param program a module's text
 */
export async function bundleProgram(project: PackedProject, program: string): Promise<Bundle> {
  const input = join(project.folder, 'program.js');
  writeFileSync(input, program);
  const { output } = await build({
    input,
    cwd: project.folder,
    platform: 'neutral',
    output: { format: 'iife' },
    write: false,
  });
  const [chunk] = output;
  return { code: chunk.code, imports: [...chunk.imports, ...chunk.dynamicImports] };
}

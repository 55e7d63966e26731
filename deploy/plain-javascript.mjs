#!/usr/bin/env node
// Makes plain JavaScript of src for the image: node deploy/plain-javascript.mjs FROM TO. Only types are taken out, so that every
// line stays where it is. What browsers get of the console stays as it is: the program takes its types out itself.

import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, relative } from 'node:path';

const [from, to] = process.argv.slice(2);
if (!from || !to) throw new Error('usage: node deploy/plain-javascript.mjs FROM TO');

/** The name of another file of ours, as every import, worker and program of a process writes it. */
const ourFile = /(['"])(\.{1,2}\/[^'"\n]+)\.ts\1/g;

for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || entry.name.endsWith('.d.ts')) continue;
  const path = relative(from, join(entry.parentPath, entry.name));
  const target = join(to, path);
  mkdirSync(join(target, '..'), { recursive: true });
  cpSync(join(from, path), target);
  const isOfBrowser = path.startsWith('web/console/web/');
  // What works on texts alone is for the program, too.
  if ((isOfBrowser && !path.startsWith('web/console/web/text/')) || !/\.(?:ts|mjs)$/.test(path)) continue;
  const text = readFileSync(join(from, path), 'utf8');
  const code = (path.endsWith('.ts') ? stripTypeScriptTypes(text) : text).replace(ourFile, '$1$2.js$1');
  if (path.endsWith('.mjs')) writeFileSync(target, code);
  else {
    writeFileSync(target.replace(/ts$/, 'js'), code);
    if (!isOfBrowser) rmSync(target);
  }
}

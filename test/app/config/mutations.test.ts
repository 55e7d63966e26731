// Every value of the shipped files, put in turn to something odd: the answer is a configuration or lines that name the
// place, never another error.

import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { isMap, isSeq, type Node, parseDocument } from 'yaml';
import { loadConfig } from '../../../src/app/config/config.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { scratchFolder } from '../../support/scratch.ts';

const root = resolve(import.meta.dirname, '../../..');
const oddValues = [null, -1, 'x y', '', [], {}, true, [null], { __proto__x: 1 }];

type Path = readonly (string | number)[];

function pathsUnder(node: Node | null | undefined, path: Path = []): Path[] {
  if (isMap<{ readonly value: string }, Node>(node)) {
    return node.items.flatMap(({ key, value }) => [[...path, key.value], ...pathsUnder(value, [...path, key.value])]);
  }
  if (isSeq<Node>(node)) return node.items.flatMap((item, at) => [[...path, at], ...pathsUnder(item, [...path, at])]);
  return [];
}

/** 'loaded', 'refused' with lines that each name a place, or what else happened. */
function outcomeOf(cwd: string): string {
  try {
    loadConfig({ file: 'x.yaml', env: {}, cwd });
    return 'loaded';
  } catch (error) {
    if (!(error instanceof ConfigurationError)) return String(error);
    const lines = error.message.split('\n');
    return lines.every((line) => /^x\.yaml:\d+:\d+: \S+: ./.test(line)) ? 'refused' : error.message;
  }
}

test.each(['config/postern.yaml', 'config/examples/every-rule.yaml'])('%s', { timeout: 120_000 }, (file) => {
  const text = readFileSync(join(root, file), 'utf8');
  const cwd = scratchFolder();
  const document = parseDocument(text);
  const paths = pathsUnder(document.contents);
  expect(paths.length).toBeGreaterThan(100);
  const counts = { loaded: 0, refused: 0 };
  for (const [index, path] of paths.entries()) {
    const whole = document.getIn(path, true);
    // Each path gets one of the values, in turn: all of them for all would take minutes.
    const odd = oddValues[index % oddValues.length];
    document.setIn(path, odd);
    writeFileSync(join(cwd, 'x.yaml'), document.toString());
    document.setIn(path, whole);
    const outcome = outcomeOf(cwd);
    if (outcome === 'loaded' || outcome === 'refused') counts[outcome] += 1;
    else expect.fail(`${path.join('.')} = ${JSON.stringify(odd)}: ${outcome}`);
  }
  expect(counts.refused).toBeGreaterThan(counts.loaded);
});

test.each(['__proto__: {}', 'smtp: { __proto__: 1 }', 'constructor: 1', 'zones: [{ toString: 1 }]', '"a/b~c": 1'])(
  '%s is an unknown key',
  (yaml) => {
    const cwd = scratchFolder();
    writeFileSync(join(cwd, 'x.yaml'), yaml);
    expect(() => loadConfig({ file: 'x.yaml', env: {}, cwd })).toThrow('unknown key');
  },
);

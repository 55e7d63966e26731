// The shapes that the pages of the console read are held against the OpenAPI document: what the document says of an answer can be
// assigned to its shape, and no page reads a member that no answer has.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { isRecord } from '../../../../src/base/is-record.ts';
import { projectRoot } from '../../../support/postern-process.ts';

const shapesFile = join(projectRoot, 'src/web/console/web/state/shapes.ts');

/** The schema of each shape. Others are part of these. */
const schemasOf: Readonly<Record<string, readonly string[]>> = {
  JournalRow: ['JournalRow'],
  FieldVerdict: ['FieldVerdict'],
  Cure: ['Cure'],
  MailEvent: ['MailEvent'],
  MessageFault: ['JournalReason'],
  JournalEntry: ['JournalEntry'],
  Preview: ['MessagePreview'],
  DkimVerdict: ['SignatureVerdict'],
  RefusalGroup: ['RefusalGroup'],
  FileChange: ['FileChange'],
  WouldPass: ['WouldPass'],
  Overview: ['Overview'],
  EdgeFailures: ['EdgeFailures'],
  Settings: ['Settings'],
  QueueGroup: ['QueueGroup'],
  QueuedMessage: ['QueuedMessage'],
  QueueDone: ['QueueActionDone'],
  Suppression: ['Suppression'],
  Token: ['Token'],
  MadeToken: ['MadeToken'],
  DnsRecord: ['DnsRecord'],
  SendingDomain: ['SendingDomain'],
  Webhook: ['Webhook'],
  MadeWebhook: ['MadeWebhook'],
  WebhookDelivery: ['WebhookDelivery'],
};
/** Shapes of what stands inside of those. */
const parts = ['MailerVerdicts', 'RecipientHistory', 'PreviewPart', 'QueueHold'];

const plain: Readonly<Record<string, string>> = {
  ...{ string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' },
};

/** A schema as a type. */
function typeOf(schema: unknown): string {
  if (!isRecord(schema)) return 'unknown';
  const { type, properties, required, items, additionalProperties: more } = schema;
  const alternatives = schema['enum'] ?? ('const' in schema ? [schema['const']] : undefined);
  if (Array.isArray(alternatives)) return alternatives.map((value) => JSON.stringify(value)).join(' | ');
  if (typeof schema['$ref'] === 'string') return schema['$ref'].replace('#/components/schemas/', 'Api.');
  if (Array.isArray(schema['anyOf'])) return schema['anyOf'].map((each) => `(${typeOf(each)})`).join(' | ');
  if (type === 'array') return `(${typeOf(items)})[]`;
  if (type !== 'object') return plain[String(type)] ?? 'unknown';
  const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name);
  const members = Object.entries(isRecord(properties) ? properties : {}).map(
    ([name, member]) => `readonly ${JSON.stringify(name)}${isRequired(name) ? '' : '?'}: ${typeOf(member)};`,
  );
  const index = isRecord(more) ? ` & { readonly [name: string]: ${typeOf(more)} }` : '';
  return `{ ${members.join(' ')} }${index}`;
}

function checkedText(): string {
  const document: unknown = JSON.parse(readFileSync(join(projectRoot, 'docs/openapi.json'), 'utf8'));
  const components = isRecord(document) && isRecord(document['components']) ? document['components']['schemas'] : {};
  const types = Object.entries(isRecord(components) ? components : {}).map(
    ([name, schema]) => `  export type ${name} = ${typeOf(schema)};`,
  );
  const checks = Object.entries(schemasOf).flatMap(([shape, schemas]) => [
    ...schemas.map(
      (schema) => `export const ${shape}Of${schema}: (answer: Api.${schema}) => Shapes.${shape} = (answer) => answer;`,
    ),
    `export const ${shape}Reads: Unknown<Shapes.${shape}, ${schemas.map((schema) => `keyof Api.${schema}`).join(' | ')}> = [];`,
  ]);
  return [
    "import type * as Shapes from './shapes.ts';",
    `declare namespace Api {\n${types.join('\n')}\n}`,
    'type Unknown<Shape, Known> = string extends keyof Shape ? [] : [Exclude<keyof Shape, Known>] extends [never] ? [] : Exclude<keyof Shape, Known>;',
    ...checks,
  ].join('\n');
}

/** What the compiler says of each of some texts that stand beside the shapes: it reads the language's own types once for all. */
function faultsOf(texts: readonly string[]): readonly (readonly string[])[] {
  const files = new Map(texts.map((text, index) => [join(shapesFile, `../checked-shapes-${index}.ts`), text]));
  const options = {
    ...{ strict: true, noEmit: true, allowImportingTsExtensions: true, exactOptionalPropertyTypes: true, types: [] },
    ...{
      target: ts.ScriptTarget.ESNext,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
    },
  };
  const host = ts.createCompilerHost(options);
  const plainHost = ts.createCompilerHost(options);
  host.fileExists = (name) => files.has(name) || plainHost.fileExists(name);
  host.getSourceFile = (name, version) => {
    const text = files.get(name);
    return text === undefined ? plainHost.getSourceFile(name, version) : ts.createSourceFile(name, text, version, true);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  // The shapes themselves, and what they are made of, are checked with everything else.
  return [...files.keys()].map((name) =>
    program.getSemanticDiagnostics(program.getSourceFile(name)).map(({ messageText, start = 0, file: at }) => {
      const line = at?.text.slice(0, start).split('\n').length ?? 0;
      return `${at?.text.split('\n')[line - 1]?.slice(0, 120)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    }),
  );
}

test('every shape is one of those that are checked, or part of one', () => {
  const names = [...readFileSync(shapesFile, 'utf8').matchAll(/^export (?:interface|type) (\w+)/gm)].map(
    ([, name]) => name,
  );
  expect(new Set([...Object.keys(schemasOf), ...parts])).toEqual(new Set(names));
});

test('what the OpenAPI document says of an answer fits its shape, and what does not is found', {
  timeout: 60_000,
}, () => {
  const right = checkedText();
  const otherType = right.replace(/readonly "count": number;/, 'readonly "count": string;');
  const withoutMember = right.replace(/readonly "last_four": string;/g, '');
  const [faults, ...found] = faultsOf([right, otherType, withoutMember]);
  expect(faults).toEqual([]);
  expect(found[0]).toEqual([expect.stringContaining("Types of property 'count' are incompatible")]);
  expect(found[1]?.map((line) => /^export const (\w+):.*last_four/.exec(line)?.[1])).toEqual(
    ['Token', 'MadeToken'].flatMap((name) => [`${name}Of${name}`, `${name}Reads`]),
  );
});

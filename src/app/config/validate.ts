// Checks a value against the schema. typebox judges what does not fit; this file turns its errors into faults that say what is wanted.

import { createRequire } from 'node:module';
import { closest } from '../../base/closest.ts';
import { member } from '../../base/is-record.ts';
import { fitsPlainly } from '../../base/schema/schema-type.ts';
import type * as SchemaJudging from '../../base/schema-judge.ts';
import { type ConfigFault, type ConfigPath, kindOf, quote } from './fault.ts';
import { type FileContents, schema } from './schema.ts';

const bounceConnections =
  'the bounce listeners have at most 200 connections, 50 from one address, beside those of smtp.limits';
const connectTime = 'an origin of an application has 10 s to accept and to agree on TLS';
const tlsReporter = 'reports of TLS come from platform.domain, and name its postmaster';
const routeVerify = 'tls says it, as in tls: { mode: required, verify: false }';

/** What holds in place of each key that is gone since 0.1.0; `[]` stands for an entry of a list, `{}` for the id of an application. */
const removedKeys: Readonly<Record<string, string>> = {
  'bounces.connections': bounceConnections,
  'bounces.connectionsPerAddress': bounceConnections,
  'bounces.messageBytes': 'a report has at most 1048576 octets',
  'delivery.destinations[].backoffSeconds': 'the route of the mail says it for all its next hops',
  'delivery.retry.factor': 'each delay is twice the one before, up to delivery.retry.maxDelaySeconds',
  'delivery.retry.jitter': 'each delay is 80 % to 120 % of the plan',
  'events.refusalsPerAccount': 'the newest 50000 refusals of an account are kept',
  'http.adminLimits': 'the admin listener has at most 1000 connections, 100 from one address',
  'platform.hmacKeyFile': 'the key is hmac.key under certsDir',
  'proxy.limits.applications{}.connectSeconds': connectTime,
  'proxy.limits.connectSeconds': connectTime,
  'reports.perAccountPerDay': 'an account has ten times reports.perAddressPerDay',
  'reports.perMessage': 'at most 10 reports are made about one message',
  'reports.returnBytes': 'RET=FULL returns messages of at most 262144 octets whole',
  'rest.limits.requestBytes': 'the body of a request has at most 1.6 times rest.limits.messageBytes',
  'routes[].tlsVerify': routeVerify,
  'routes[].urls[].tlsVerify': routeVerify,
  'spool.account.failedMessages':
    'an account keeps at most 10000 failed messages, and those of spool.account.failedBytes',
  'tlsReports.contact': tlsReporter,
  'tlsReports.delayMinutes': 'a report leaves up to 240 minutes after the end of its day',
  'tlsReports.organization': tlsReporter,
};

/** What is said of a key that was taken away; undefined for any other. */
function removedKeyText(path: ConfigPath): string | undefined {
  const steps = path.map((step) => (typeof step === 'number' ? '[]' : /^[\da-f]{32}$/i.test(step) ? '{}' : `.${step}`));
  const anyEntry = steps.join('').slice(1);
  const now = Object.hasOwn(removedKeys, anyEntry) ? removedKeys[anyEntry] : undefined;
  return now && `is gone since 0.1.0: ${now}; take the key out`;
}

interface Node {
  readonly want?: string;
  /** What is wanted of the keys of a mapping that has no fixed keys. */
  readonly keyWant?: string;
  readonly secret?: boolean;
  readonly digits?: boolean;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** The schema's node and the value at a path; `schemaPath` is how typebox writes the way to the node. */
interface SchemaPosition {
  readonly node: Node;
  readonly value: unknown;
  readonly schemaPath: string;
  readonly path: ConfigPath;
}

/** The branch of a union that the value was probably meant for, judged by the value's type. */
function chooseBranch(place: SchemaPosition): SchemaPosition {
  const branches = place.node.anyOf;
  if (!branches) return place;
  const type = Array.isArray(place.value) ? 'array' : typeof place.value;
  const index = branches.findIndex((branch) => branch.type === type);
  const branch = branches[index];
  return branch ? { ...place, node: branch, schemaPath: `${place.schemaPath}/anyOf/${index}` } : place;
}

function step(from: SchemaPosition, token: string): SchemaPosition | undefined {
  const place = chooseBranch(from);
  const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
  if (Array.isArray(place.value)) {
    const node = place.node.items;
    const path = [...place.path, Number(name)];
    return node && { node, value: place.value[Number(name)], schemaPath: `${place.schemaPath}/items`, path };
  }
  const under = { value: member(place.value, name), path: [...place.path, name] };
  const known = place.node.properties;
  const node = known && Object.hasOwn(known, name) ? known[name] : undefined;
  if (node) return { node, schemaPath: `${place.schemaPath}/properties/${name}`, ...under };
  const [pattern, ofAnyName] = Object.entries(place.node.patternProperties ?? {})[0] ?? [];
  return ofAnyName && { node: ofAnyName, schemaPath: `${place.schemaPath}/patternProperties/${pattern}`, ...under };
}

function positionOf(top: SchemaPosition, instancePath: string): SchemaPosition | undefined {
  let place: SchemaPosition | undefined = top;
  for (const token of instancePath.split('/').slice(1)) place = place && step(place, token);
  return place;
}

function unknownKey(place: SchemaPosition, key: string): ConfigFault {
  const path = [...place.path, key];
  const removed = removedKeyText(path);
  if (removed !== undefined) return { path, text: removed, atKey: true };
  const known = Object.keys(place.node.properties ?? {});
  const near = closest(key, known);
  const others = known.length > 0 ? `want one of ${known.join(', ')}` : `want ${place.node.keyWant ?? 'a name'}`;
  const hint = near ? `did you mean "${near}"?` : others;
  return { path, text: `unknown key; ${hint}`, atKey: true };
}

function missingKey(place: SchemaPosition, key: string): ConfigFault {
  const want = place.node.properties?.[key]?.want;
  return { path: [...place.path, key], text: `missing${want ? `, want ${want}` : ''}` };
}

function wrongValue(place: SchemaPosition): ConfigFault {
  const { node, value, path } = place;
  const isSecret = node.secret === true || (node.anyOf ?? []).some((branch) => branch.secret === true);
  const got = isSecret ? kindOf(value) : quote(value);
  return { path, text: `got ${got}, want ${node.want ?? 'another value'}${hintFor(node, value)}` };
}

/** A hint at the likely cause: YAML reads bare digits and some words as other types than text. */
function hintFor(node: Node, value: unknown): string {
  if (node.digits === true && (typeof value === 'number' || typeof value === 'boolean')) return '; put it in quotes';
  if (typeof value === 'string' && node.type === 'array') return '; put it in [ ]';
  return '';
}

function faultsOf(error: SchemaJudging.SchemaError, top: SchemaPosition): ConfigFault[] {
  const at = positionOf(top, error.instancePath);
  if (!at) return [];
  const place = chooseBranch(at);
  // Errors of a branch that the value was not meant for are ignored.
  if (error.schemaPath !== place.schemaPath && error.schemaPath !== at.schemaPath) return [];
  const { name = '' } = error.params;
  if (error.keyword === 'additionalProperties') return [unknownKey(place, name)];
  if (error.keyword === 'required') return [missingKey(place, name)];
  return [wrongValue(at)];
}

let judge: SchemaJudging.SchemaJudge | undefined;

/** The judge that can tell what is wrong. It is loaded when something is, and at once, because a configuration is read at once. */
function fullJudge(): SchemaJudging.SchemaJudge {
  const load: (file: string) => typeof SchemaJudging = createRequire(import.meta.url);
  judge ??= load('../../base/schema-judge.ts').compileSchema(schema);
  return judge;
}

/** Whether the value is what the schema says. */
export function isFileContents(value: unknown): value is FileContents {
  return fitsPlainly(schema, value) || fullJudge().fits(value);
}

/** All faults of a value, in the order of the schema. */
export function schemaFaults(value: unknown): ConfigFault[] {
  if (fitsPlainly(schema, value)) return [];
  const top: SchemaPosition = { node: schema, value, schemaPath: '#', path: [] };
  const errors = fullJudge().errors(value);
  return keepOneEach(errors.flatMap((error) => faultsOf(error, top)));
}

/** Keeps one fault per path, and none for a value whose parts have faults of their own (a union reports itself, too). */
function keepOneEach(faults: readonly ConfigFault[]): ConfigFault[] {
  const byPath = new Map(faults.toReversed().map((fault) => [JSON.stringify(fault.path), fault]));
  const outer = new Set(faults.flatMap(({ path }) => path.map((_, depth) => JSON.stringify(path.slice(0, depth)))));
  return [...byPath].toReversed().flatMap(([key, fault]) => (fault.path.length > 0 && outer.has(key) ? [] : [fault]));
}

// postern-lint judges messages in files as a gateway would: for a build, a hook before a commit, or whoever wants to know.

import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { readMessage } from '../../../src/mail/header/header-reader.ts';
import { type ArchiveEntry, isArchive, readArchive } from '../../../src/pipeline/report/archive/archive-files.ts';
import { archivedMessage } from '../../../src/pipeline/report/archive/archived-message.ts';
import { judge } from './judge.ts';
import { type Finding, formats } from './lint/formats.ts';
import { filesOfPattern, isPattern } from './lint/patterns.ts';
import type { JudgeInput, JudgeOptions } from './types.ts';

const usage = `Usage: postern-lint [OPTION]... FILE...

Judges messages by the header policy of Postern. A FILE is a message (.eml), the body of a request of the API (.json), an mbox, a
Maildir or another folder, a pattern with * ? ** { }, or - for a message on standard input.

  --format text|json|sarif   how the findings are printed (default: text)
  --domain NAME              a sending domain of the account; may be repeated (default: any domain)
  --from ADDRESS             the reverse-path, <> for a bounce (default: From decides alone)
  --strip NAME               as strip of a credential; may be repeated. Also --strip-invalid NAME, --keep-first NAME, --strip-empty
  --default-domain NAME      as defaultDomain of a credential
  --charset NAME             as legacyCharset of a credential
  --trusted-hop              Received headers may stand in a message
  --pages URL                a gateway whose pages of headers are linked: https://gateway.example
  --quiet                    tell nothing of messages that would be accepted
  --help, --version

Ends with 0 where every message would be accepted, 1 where one would be refused, 2 where something could not be read.
`;

/** Octets of one message that are read: more than a gateway takes. */
const mostOctets = 67_108_864;

const list = { type: 'string', multiple: true } as const;
const text = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;
const options = {
  format: text,
  domain: list,
  from: text,
  strip: list,
  'strip-invalid': list,
  'keep-first': list,
  'strip-empty': flag,
  'default-domain': text,
  charset: text,
  'trusted-hop': flag,
  pages: text,
  quiet: flag,
  help: flag,
  version: flag,
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>['values'];

function judgeOptions(values: Values): JudgeOptions {
  const { domain, from } = values;
  return {
    ...(domain === undefined ? {} : { sendingDomains: domain }),
    ...(from === undefined ? {} : { reversePath: from.replace(/^<(.*)>$/, '$1') }),
    strip: values.strip ?? [],
    stripInvalid: values['strip-invalid'] ?? [],
    keepFirst: values['keep-first'] ?? [],
    stripEmpty: values['strip-empty'] ?? false,
    trustedHop: values['trusted-hop'] ?? false,
    ...(values['default-domain'] === undefined ? {} : { defaultDomain: values['default-domain'] }),
    ...(values.charset === undefined ? {} : { legacyCharset: values.charset }),
  };
}

/** What is judged of an entry: a file as it is; of a mailbox the message as it was sent, without what its delivery has added. */
function messageOf(entry: Extract<ArchiveEntry, { readonly kind: 'message' }>): Buffer {
  if (entry.sender === undefined && !/[/\\](?:cur|new)[/\\][^/\\]+$/.test(entry.name)) return entry.octets;
  const { fields, body } = archivedMessage(entry);
  const head = fields.flatMap(({ name, rawBytes, fault }) => {
    const colon = fault === 'no-colon' || fault === 'leading-continuation' ? '' : ':';
    return [Buffer.from(`${name}${colon}`, 'latin1'), rawBytes, Buffer.from('\r\n')];
  });
  return Buffer.concat([...head, Buffer.from('\r\n'), body]);
}

/** The line of a file on which each header field begins. */
function linesOf(octets: Buffer): readonly number[] {
  const crlf = octets.includes('\r\n')
    ? octets
    : Buffer.from(octets.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
  let line = 1;
  return readMessage(crlf).fields.map(({ rawBytes }) => {
    const begin = line;
    line += 1 + rawBytes.toString('latin1').split('\n').length - 1;
    return begin;
  });
}

/** Judges one message of a file. @param lines of its fields, where they are those of the file */
async function find(file: string, input: JudgeInput, how: JudgeOptions, lines: readonly number[]): Promise<Finding> {
  const { verdict, violations, fields } = await judge(input, how);
  const reasons = violations.map((violation) => {
    const at = fields.findIndex((field) => field.violation?.message === violation.message);
    const page = fields[at]?.page;
    const line = lines[at];
    return { ...violation, ...(page === undefined ? {} : { page }), ...(line === undefined ? {} : { line }) };
  });
  return { file, verdict, reasons };
}

/** Judges one file that holds one message, or the body of a request. */
async function findInFile(path: string, how: JudgeOptions): Promise<Finding> {
  let octets: Buffer;
  try {
    octets = readFileSync(path === '-' ? 0 : path);
  } catch (error) {
    return { file: path, verdict: 'unread', reasons: [], why: error instanceof Error ? error.message : String(error) };
  }
  if (path.endsWith('.json')) return find(path, { json: octets.toString() }, how, []);
  return find(path, octets, how, linesOf(octets));
}

async function* findings(paths: readonly string[], how: JudgeOptions): AsyncGenerator<Finding> {
  for (const path of paths) {
    if (path === '-' || path.endsWith('.json') || !(await isArchive(path))) {
      yield await findInFile(path, how);
      continue;
    }
    for await (const entry of readArchive([path], { most: mostOctets })) {
      if (entry.kind === 'message') {
        const octets = messageOf(entry);
        yield await find(entry.name, octets, how, octets === entry.octets ? linesOf(octets) : []);
      } else if (!/^(?:no message|empty)$/.test(entry.why)) {
        // Folders hold files that are no messages, which are passed over.
        yield { file: entry.name, verdict: 'unread', reasons: [], why: entry.why };
      }
    }
  }
}

function fail(message: string): number {
  process.stderr.write(`postern-lint: ${message}\n`);
  return 2;
}

/** Runs the command. @returns its exit code */
async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const { format = 'text', pages, quiet = false } = values;
  if (values.help || values.version) {
    process.stdout.write(values.help ? usage : `${process.env['npm_package_version'] ?? '0.1.0'}\n`);
    return 0;
  }
  const write = Object.hasOwn(formats, format) ? formats[format as keyof typeof formats] : undefined;
  if (write === undefined) return fail(`--format is text, json or sarif, got ${JSON.stringify(format)}`);
  if (positionals.length === 0) return fail('no FILE is named; --help tells how it is used');
  // A file may be named with characters of patterns.
  const paths = positionals.flatMap((path) => (isPattern(path) && !existsSync(path) ? filesOfPattern(path) : [path]));
  if (paths.length === 0) return fail(`no file is like ${positionals.join(', ')}`);
  const found: Finding[] = [];
  for await (const finding of findings(paths, judgeOptions(values))) found.push(finding);
  process.stdout.write(write(found, { pages: pages?.replace(/\/+$/, ''), quiet }));
  if (found.some(({ verdict }) => verdict === 'unread')) return 2;
  return found.some(({ verdict }) => verdict === 'refused') ? 1 : 0;
}

run(process.argv.slice(2)).then(
  (code) => void (process.exitCode = code),
  (error: unknown) => void (process.exitCode = fail(error instanceof Error ? error.message : String(error))),
);

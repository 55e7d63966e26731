// Custom Error Rules (D65): what is wrong with one, and which of a list answers an error.

import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import type { EdgeOccurrence, ErrorAnswer } from '../errors/catalogue.ts';
import type { CustomErrorRule } from '../zone/zone.ts';
import { compileExpression, type Evaluation, maxSteps, type ParsedExpression, parseExpression } from './expression.ts';

/** The most rules of one zone or account. */
export const maxRules = 100;
/** The most comparisons of the rules of a zone or account together: few enough that the other list has its part. */
const maxComparisons = maxSteps / 50;
/** The most octets of a rule's content as UTF-8. */
export const maxRuleContentBytes = 10_240;
/** The media types that a rule's content may have. */
export const ruleContentTypes = [
  'text/html',
  'text/plain',
  'application/json',
  'text/xml',
] as const satisfies readonly CustomErrorRule['contentType'][];

const longestShown = 60;

function shownFault(expression: string, { offset, message }: { readonly offset: number; readonly message: string }) {
  const cut = expression.length > longestShown ? `${expression.slice(0, longestShown)}...` : expression;
  return `character ${offset + 1} of ${JSON.stringify(cut)}: ${message}`;
}

/** What is wrong with each expression, by its index, and with all together (D65). @param parsed what `parseExpression` gave */
export function expressionFaults(
  expressions: readonly string[],
  parsed: readonly ParsedExpression[] = expressions.map(parseExpression),
) {
  const comparisons = parsed.reduce((sum, read) => sum + (read.ok ? read.comparisons : 0), 0);
  return {
    each: parsed.map((read, index) => (read.ok ? undefined : shownFault(expressions[index] ?? '', read))),
    all:
      comparisons > maxComparisons
        ? `have ${comparisons} comparisons together, want at most ${maxComparisons}; a set behind in counts as one`
        : undefined,
  };
}

/** What is wrong with a rule's content; undefined where nothing is. */
export function contentFault(content: string): string | undefined {
  const octets = Buffer.byteLength(content);
  return octets > maxRuleContentBytes ? `is ${octets} octets, want at most ${maxRuleContentBytes}` : undefined;
}

/** Members of a rule with two spellings: the one of the file, and an older one of the API (D65). */
const spellings = [
  { name: 'contentType', other: 'content_type', isRequired: true },
  { name: 'statusCode', other: 'status_code', isRequired: false },
] as const;

/**
 * What is wrong with how a rule's members are spelled. @param has whether it has a member of this name
 * @returns members that are written twice, or not at all though they must be, with their other spelling
 */
export function spellingFaults(has: (name: string) => boolean) {
  return spellings.flatMap(({ name, other, isRequired }) => {
    if (has(name) !== has(other) || !(has(name) || isRequired)) return [];
    return [
      has(name)
        ? ({ member: other, kind: 'twice', other: name } as const)
        : ({ member: name, kind: 'missing', other } as const),
    ];
  });
}

/** A rule of the file or of a body, in which `spellingFaults` has found nothing, in one spelling. */
export function ruleOf({
  content_type,
  status_code,
  ...rule
}: Omit<CustomErrorRule, 'contentType'> & {
  readonly contentType?: CustomErrorRule['contentType'];
  readonly content_type?: CustomErrorRule['contentType'];
  readonly status_code?: number;
}): CustomErrorRule {
  const { contentType = content_type, statusCode = status_code, ...rest } = rule;
  if (contentType === undefined) throw new Error('A rule without a content type passed');
  return { ...rest, contentType, ...(statusCode === undefined ? {} : { statusCode }) };
}

/** The header fields of every custom answer: it must not be cached (D62), and tells when to come back (D65). */
export function customHeaders(contentType: string, { retryAfterSeconds }: EdgeOccurrence): ErrorAnswer['headers'] {
  return {
    'Content-Type': contentType,
    'Cache-Control': 'private, no-store',
    ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
  };
}

/** A list of rules that is ready for use. */
export interface CompiledRules {
  readonly rules: readonly CustomErrorRule[];
  /** The answer of the first rule that is enabled and matches (D65); none where the evaluation is spent before. */
  readonly answer: (occurrence: EdgeOccurrence, evaluation: Evaluation) => ErrorAnswer | undefined;
}

/** Prepares rules, in slices. @param onFault called with one that cannot be read, which another version has stored; it is left out */
export async function compileRules(
  rules: readonly CustomErrorRule[],
  onFault: (text: string) => void,
): Promise<CompiledRules> {
  const matches: ReturnType<typeof compileExpression>[] = [];
  const answers: { readonly contentType: string; readonly body: Buffer; readonly statusCode: number | undefined }[] =
    [];
  for (const { expression, enabled, content, contentType, statusCode } of rules) {
    if (enabled === false) continue;
    await yieldToEventLoop();
    const parsed = parseExpression(expression);
    if (!parsed.ok) {
      onFault(shownFault(expression, parsed));
      continue;
    }
    matches.push(compileExpression(parsed.syntax));
    answers.push({ contentType: `${contentType}; charset=utf-8`, body: Buffer.from(content), statusCode });
  }
  return {
    rules,
    answer(occurrence, evaluation) {
      const index = matches.findIndex((test) => test(evaluation) || evaluation.isSpent);
      const rule = evaluation.isSpent ? undefined : answers[index];
      if (!rule) return undefined;
      const status = rule.statusCode ?? occurrence.error.status;
      return { status, headers: customHeaders(rule.contentType, occurrence), body: rule.body };
    },
  };
}

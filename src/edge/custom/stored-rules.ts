// Custom Error Rules as JSON in the database.

import type { CustomErrorRule } from '../zone/zone.ts';
import { ruleContentTypes } from './custom-error-rules.ts';

/** Writes rules. */
export function writeStoredRules(rules: readonly CustomErrorRule[]): string {
  return JSON.stringify(rules);
}

function ruleOf(value: unknown): CustomErrorRule | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const member = (name: string): unknown => Reflect.get(value, name);
  const [expression, enabled, content, statusCode] = ['expression', 'enabled', 'content', 'statusCode'].map(member);
  const contentType = ruleContentTypes.find((type) => type === member('contentType'));
  if (typeof expression !== 'string' || typeof content !== 'string' || contentType === undefined) return undefined;
  return {
    expression,
    ...(typeof enabled === 'boolean' ? { enabled } : {}),
    content,
    contentType,
    ...(typeof statusCode === 'number' ? { statusCode } : {}),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // told to onFault like every other text that is no list of rules
  }
}

/**
 * Reads rules.
 * @param onFault told of what is no rule, which only another version of this program or another hand can have written
 */
export function readStoredRules(text: string, onFault: (text: string) => void): readonly CustomErrorRule[] {
  const values = parsed(text);
  if (!Array.isArray(values)) {
    onFault('the stored rules are no list');
    return [];
  }
  return values.flatMap((value: unknown, index) => {
    const rule = ruleOf(value);
    if (!rule) onFault(`entry ${index} of the stored rules is no rule`);
    return rule ? [rule] : [];
  });
}

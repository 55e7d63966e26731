// What an expression may compare, and how (D65).

import type { EdgeCategory } from '../errors/categories.ts';

/** Fields that are whole numbers. */
export const integerFields = ['error_code', 'status'] as const;
/** Fields that are strings; `header` comes with a name. */
export const stringFields = ['error_category', 'method', 'path', 'host', 'header'] as const;
/** Operators on whole numbers. */
export const integerOperators = ['eq', 'ne', 'in', 'lt', 'gt'] as const;
/** Operators on strings. */
export const stringOperators = ['eq', 'ne', 'in', 'contains', 'starts_with'] as const;

/** Every operator. */
export const operators = ['eq', 'ne', 'in', 'lt', 'gt', 'contains', 'starts_with'] as const;

export type IntegerField = (typeof integerFields)[number];
export type StringField = (typeof stringFields)[number];
export type IntegerOperator = (typeof integerOperators)[number];
export type StringOperator = (typeof stringOperators)[number];

const categoryTable = {
  origin: true,
  platform: true,
  ssl: true,
  access_denied: true,
  rate_limit: true,
  dns: true,
  config: true,
  tls: true,
  legal: true,
  worker: true,
  rewrite: true,
  snippet: true,
  unsupported: true,
} as const satisfies Record<EdgeCategory, true>;

/** What `error_category` may be. */
export const categories: readonly string[] = Object.keys(categoryTable);

/** One comparison. `values` has one member unless the operator is `in`. */
export type Comparison =
  | {
      readonly kind: 'integer';
      readonly field: IntegerField;
      readonly operator: IntegerOperator;
      readonly values: readonly number[];
    }
  | {
      readonly kind: 'string';
      readonly field: StringField;
      /** Of a header, its name in lower case; else empty. */
      readonly name: string;
      readonly operator: StringOperator;
      readonly values: readonly string[];
    };

/** An expression as a tree. */
export type Syntax =
  | Comparison
  | { readonly kind: 'not'; readonly part: Syntax }
  /** Two parts or more. */
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Syntax[] };

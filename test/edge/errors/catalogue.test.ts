// The catalogue against the tables of the interface's specification and the decisions D63 and D64, written out as data.

import { describe, expect, test } from 'vitest';
import { allEdgeErrors, edgeErrors, isEdgeCode } from '../../../src/edge/errors/catalogue.ts';
import type { EdgeCategory } from '../../../src/edge/errors/categories.ts';
import { chosenCodes } from '../../support/errors-sections.ts';

/** The specification's categories with all their codes; D63's own codes apart. */
const specified: Readonly<Record<EdgeCategory, readonly number[]>> = {
  origin: [502, 504, 520, 521, 522, 523, 524],
  platform: [500],
  ssl: [525, 526],
  access_denied: [1005, 1006, 1007, 1008, 1010, 1012, 1106, 1107, 1108, 1109],
  rate_limit: [1015, 1025, 1027, 1200],
  dns: [1001, 1016],
  config: [1004, 1014, 1033, 1043, 1047, 1049],
  tls: [1017, 1028, 1029, 1044],
  legal: [1026, 1039],
  worker: [1042, 1100, 1101, 1102, 1103, 1104, 1105],
  rewrite: [1036, 1037],
  snippet: [1201, 1202, 1203, 1204, 1205, 1206],
  unsupported: [1045],
};

const retrySeconds: Readonly<Record<number, number>> = {
  500: 30,
  502: 60,
  504: 120,
  520: 60,
  521: 120,
  522: 120,
  523: 120,
  524: 120,
  1004: 120,
  1015: 30,
  1033: 120,
  1038: 60,
  1200: 60,
  1205: 5,
};

/** D63: the status of a category's codes, and the codes that differ from it; every 5xx code is its own status. */
const statuses: Readonly<Partial<Record<EdgeCategory, number>>> = {
  access_denied: 403,
  rate_limit: 429,
  dns: 530,
  config: 409,
  tls: 403,
  legal: 451,
  worker: 500,
  rewrite: 500,
  snippet: 500,
  unsupported: 501,
};
const ownStatuses: Readonly<Record<number, number>> = { 1013: 421, 1033: 530, 1038: 431, 1102: 503, 1200: 503 };

const fixedNames: Readonly<Record<number, string>> = {
  500: 'internal_server_error',
  502: 'origin_bad_gateway',
  504: 'origin_gateway_timeout',
  521: 'origin_down',
  522: 'connection_timeout',
  524: 'origin_response_timeout',
  526: 'invalid_ssl_certificate',
  1001: 'dns_resolution_error',
  1004: 'host_not_configured',
  1015: 'rate_limited',
  1016: 'origin_dns_error',
  1033: 'tunnel_error',
  1200: 'cache_connection_limit',
};

const shortNames: Readonly<Record<number, string>> = {
  1004: 'DNS resolution error',
  1015: 'Rate limited',
  1033: 'Tunnel error',
  1038: 'HTTP headers limit exceeded',
  1200: 'Cache connection limit',
  1205: 'Too many redirects',
};

/** D64. */
const ownerActs: readonly EdgeCategory[] = [
  'ssl',
  'config',
  'dns',
  'worker',
  'rewrite',
  'snippet',
  'legal',
  'access_denied',
  'origin',
];

function codesOf(table: Readonly<Record<string, readonly number[]>>): number[] {
  return Object.values(table).flat();
}

test('the codes are those of the specification and of D63, in their order', () => {
  const wanted = [...codesOf(specified), ...codesOf(chosenCodes)].sort((a, b) => a - b);
  expect(allEdgeErrors.map(({ code }) => code)).toEqual(wanted);
  expect(wanted.length).toBe(69);
});

test.each(Object.keys(specified) as EdgeCategory[])('category %s has its codes', (category) => {
  const rows = allEdgeErrors.filter((error) => error.category === category);
  const wanted = [...specified[category], ...(chosenCodes[category] ?? [])].sort((a, b) => a - b);
  expect(rows.map(({ code }) => code)).toEqual(wanted);
});

test('error_name is unique and snake_case', () => {
  expect(new Set(allEdgeErrors.map(({ name }) => name)).size).toBe(allEdgeErrors.length);
  expect(allEdgeErrors.filter(({ name }) => !/^[a-z]+(?:_[a-z]+)*$/.test(name))).toEqual([]);
});

describe.each(allEdgeErrors)('$code', (error) => {
  const { code, category } = error;

  test('is found by its code', () => {
    expect(isEdgeCode(code)).toBe(true);
    expect(edgeErrors[code]).toBe(error);
  });

  test('has the status of D63', () => {
    expect(error.status).toBe(ownStatuses[code] ?? (code < 600 ? code : statuses[category]));
  });

  test('is retryable exactly as the table of Retry-After says', () => {
    expect(error.retryAfterSeconds).toBe(retrySeconds[code]);
  });

  test('has the owner action of D64', () => {
    expect(error.ownerAction).toBe(code === 1027 || (ownerActs.includes(category) && code !== 1038));
  });

  test('has the names that are fixed', () => {
    expect(error.name).toBe(fixedNames[code] ?? error.name);
    expect(error.shortName).toBe(shortNames[code] ?? error.shortName);
  });

  test('has texts of whole plain sentences, of their own', () => {
    const { detail, guidance, ownerGuidance } = error;
    for (const text of [detail, guidance, ownerGuidance]) expect(text).toMatch(/^[A-Z][ -~]{40,400}\.$/);
    // Plain text: nothing that HTML, Markdown or YAML would read as more.
    expect(error.shortName + detail + guidance + ownerGuidance).not.toMatch(/[<>&*_`#|[\]{}\\]| {2}/);
    expect(new Set([detail, guidance, ownerGuidance]).size).toBe(3);
    expect(error.shortName).toMatch(/^[A-Z][A-Za-z:, ]+[a-zA-Z]$/);
    expect(allEdgeErrors.filter((other) => other.detail === detail)).toEqual([error]);
  });

  test('advises to retry where it is retryable, and says a time nowhere else', () => {
    const advises = /as long as this error says|waiting time given with this error/.test(error.guidance);
    expect(advises).toBe(error.retryAfterSeconds !== undefined);
  });
});

test.each([-1, 0, 499, 501, 519, 527, 999, 1021, 1105.5, 1207, Number.NaN, Infinity])('%d is no code', (code) => {
  expect(isEdgeCode(code)).toBe(false);
});

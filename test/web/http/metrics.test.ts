// Requests to the edge as /metrics tells them.

import { describe, expect, test } from 'vitest';
import { createMetrics } from '../../../src/web/http/metrics.ts';

async function edgeLines(counts: readonly Parameters<ReturnType<typeof createMetrics>['edgeRequest']>[0][]) {
  const metrics = createMetrics();
  for (const count of counts) metrics.edgeRequest(count);
  await metrics.render();
  const { text = '' } = (await metrics.render()) ?? {}; // what is read twice is counted once
  return text.split('\n').filter((line) => line.startsWith('postern_edge_'));
}

describe('requests to the edge', () => {
  test('by zone and class of the status, which an origin may choose up to 999', async () => {
    const lines = await edgeLines([
      { zone: 'a.example', status: 200 },
      { zone: 'a.example', status: 299 },
      { zone: 'a.example', status: 300 },
      { zone: 'a.example', status: 999 },
      { zone: 'a.example' },
      { zone: '', status: 409 },
      { zone: 'constructor', status: 101 },
    ]);
    expect(lines).toEqual([
      'postern_edge_requests_total{zone="a.example",status="none"} 1',
      'postern_edge_requests_total{zone="a.example",status="2xx"} 2',
      'postern_edge_requests_total{zone="a.example",status="3xx"} 1',
      'postern_edge_requests_total{zone="a.example",status="9xx"} 1',
      'postern_edge_requests_total{zone="",status="4xx"} 1',
      'postern_edge_requests_total{zone="constructor",status="1xx"} 1',
    ]);
  });

  test('answers from memory, by zone', async () => {
    const known = { zone: 'a.example', status: 521, fromMemory: true };
    const lines = await edgeLines([known, { zone: 'a.example', status: 521 }, known, { ...known, zone: 'b.example' }]);
    expect(lines.filter((line) => line.startsWith('postern_edge_known_down_total'))).toEqual([
      'postern_edge_known_down_total{zone="a.example"} 2',
      'postern_edge_known_down_total{zone="b.example"} 1',
    ]);
  });

  test('errors by code, for every zone together', async () => {
    const lines = await edgeLines([
      { zone: 'a.example', status: 521, code: 521 },
      { zone: 'b.example', status: 521, code: 521 },
      { zone: '', status: 409, code: 1004 },
      { zone: 'a.example', status: 522 },
    ]);
    expect(lines.filter((line) => line.startsWith('postern_edge_errors_total'))).toEqual([
      'postern_edge_errors_total{code="521"} 2',
      'postern_edge_errors_total{code="1004"} 1',
    ]);
  });
});

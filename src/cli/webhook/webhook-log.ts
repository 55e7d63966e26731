// `postern webhook log` prints the last requests of a webhook.

import { UsageError } from '../../base/errors.ts';
import type { DeliveryRecord } from '../../webhooks/webhook.ts';
import { isoTime } from '../command/choose-account.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { configFor } from '../command/load-config.ts';
import { printable } from '../command/printable.ts';
import { accountOf, accountOption, missing, notFound, withWebhooks } from './open-webhooks.ts';

/** Requests that the log keeps of one webhook at most. */
const most = 1000;

function lineOf({ event, kind, attempt, at, durationMs, result, status, error }: DeliveryRecord): string {
  const answer = status === undefined ? printable(error ?? '') : `${status}`;
  return `${isoTime(at)}  event ${event} ${kind}, attempt ${attempt}: ${result.replace('_', ' ')}, ${answer}, ${durationMs} ms\n`;
}

function jsonOf({ id, event, kind, attempt, at, durationMs, result, status, error }: DeliveryRecord): string {
  const shown = {
    ...{ id: String(id), event: String(event), kind, attempt, at: isoTime(at), duration_ms: durationMs, result },
    ...{ status: status ?? null, error: error ?? null },
  };
  return `${JSON.stringify(shown)}\n`;
}

/** postern webhook log */
export const log = defineCommand({
  name: 'log',
  summary: 'Print the last requests of a webhook, the newest first',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  options: {
    ...accountOption,
    limit: { value: 'N', summary: 'at most this many (default 100)' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: ['postern webhook log --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e'],
  exitCodes: notFound,
  run({ options, args: [id = ''] }, io) {
    const limit = Number(options.limit ?? 100);
    if (!Number.isInteger(limit) || limit < 1)
      throw new UsageError(`--limit wants a whole number from 1, got "${options.limit}"`);
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withWebhooks(config, async (store) => {
      if (!(await store.find(account.id, id))) return missing(id, account.name, io);
      const { deliveries } = await store.deliveries(id, { limit: Math.min(limit, most) });
      for (const one of deliveries) io.stdout.write(options.json ? jsonOf(one) : lineOf(one));
      return 0;
    });
  },
});

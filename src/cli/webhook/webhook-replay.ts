// `postern webhook replay` has events sent once more; a running server begins within seconds.

import { systemClock } from '../../base/clock.ts';
import { UsageError } from '../../base/errors.ts';
import { replayRange } from '../../webhooks/replay-range.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { configFor } from '../command/load-config.ts';
import { parseSpan } from '../command/span.ts';
import { accountOf, accountOption, missing, notFound, withEvents, withWebhooks } from './open-webhooks.ts';

/** postern webhook replay */
export const replay = defineCommand({
  name: 'replay',
  summary: 'Send events to a webhook once more',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  details: 'Those of the kinds that it is told of. They have the webhook-id that they had before.',
  options: {
    ...accountOption,
    event: { value: 'EVENT', summary: 'this event' },
    since: { value: 'SPAN', summary: 'the events of the last 2h, 3d ...' },
    ...configOption,
  },
  examples: [
    'postern webhook replay --account dev --since 2d 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
    'postern webhook replay --account dev --event 4711 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
  ],
  exitCodes: notFound,
  run({ options, args: [id = ''] }, io) {
    const { event, since } = options;
    if ((event === undefined) === (since === undefined)) throw new UsageError('want one of --event and --since');
    if (event !== undefined && !/^[1-9]\d{0,14}$/.test(event))
      throw new UsageError(`--event wants the number of an event, got "${event}"`);
    const wish =
      since === undefined ? { event: Number(event) } : { since: systemClock.now() - parseSpan(since, '--since') };
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withWebhooks(config, async (store) => {
      if (!(await store.find(account.id, id))) return missing(id, account.name, io);
      const range = await withEvents(config, (events) => replayRange(events, account.name, wish));
      if (!range) {
        io.stderr.write('There are no such events\n');
        return 1;
      }
      await store.replay(account.id, id, range);
      io.stdout.write(`The events behind ${range.after} up to ${range.until} are sent once more\n`);
      return 0;
    });
  },
});

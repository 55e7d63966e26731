// The worker thread that reads another configuration and judges messages by it, one after another.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { type JudgeKept, judgeKeptBy, type KeptMessage } from '../../pipeline/report/would-pass.ts';
import { type ConfigSource, loadConfig } from '../config/config.ts';
import { judgedBy } from './build-parts.ts';
import { checkApplications } from './load-settings.ts';

/** What a message would be refused for; none behind the configuration itself. Or its faults, a line each; or why there is no answer. */
export type JudgingAnswer =
  | { readonly codes: readonly string[] }
  | { readonly faults: string }
  | { readonly error: string };

async function read(place: ConfigSource): Promise<JudgeKept> {
  const other = loadConfig(place);
  await checkApplications(other, systemClock);
  return judgeKeptBy(judgedBy(other));
}

async function serve(port: MessagePort, place: ConfigSource): Promise<void> {
  const answer = (answered: JudgingAnswer): void => port.postMessage(answered, []);
  const failed = (error: unknown): void =>
    answer(error instanceof ConfigurationError ? { faults: error.message } : { error: errorMessage(error) });
  try {
    const judge = await read(place);
    port.on('message', (kept: KeptMessage) => void judge(kept).then((codes) => answer({ codes }), failed));
    answer({ codes: [] });
  } catch (error) {
    failed(error);
  }
}

if (!parentPort) throw new Error('This file runs as a worker thread of the endpoint would-pass only');
const place: ConfigSource = workerData;
void serve(parentPort, place);

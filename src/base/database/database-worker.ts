// The entry of the embedded database's thread. SqliteExecutor does the work.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { settleThread } from '../load/compiled-code.ts';
import type { DatabaseWorkerData, FromWorker, ToWorker } from './sqlite-database.ts';
import { SqliteExecutor } from './sqlite-executor.ts';

function serve(port: MessagePort, data: DatabaseWorkerData): void {
  const post = (message: FromWorker): void => port.postMessage(message, []);
  const executor = new SqliteExecutor(data, post);
  port.on('message', (message: ToWorker) => {
    if (message !== 'close') {
      executor.receive(message);
      return;
    }
    executor.close();
    port.close();
  });
  settleThread();
  post('open');
}

if (!parentPort) throw new Error('This file runs as a worker thread of the database only');
serve(parentPort, workerData);

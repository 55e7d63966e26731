// The stores of a worker of the tests share their threads: one that a store has closed serves the next. What a thread of SQLite costs is
// mostly its start, with the modules that it loads, and the tests open over a thousand stores. The gateways and commands that run as
// processes start theirs as ever. A setup file of the unit tests.

import { EventEmitter } from 'node:events';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { MessageChannel, type MessagePort, type Transferable, type Worker } from 'node:worker_threads';

const isShared = /\/(?:sqlite|database)-worker\.ts$/;
const runner = new URL('./shared-thread.mjs', import.meta.url);
/** Threads that wait for a store, at most. */
const mostSpare = 4;

/** What is kept from one file of tests to the next of this process. */
interface Kept {
  readonly Thread: typeof Worker;
  readonly spare: Worker[];
}

/** What a store takes for a thread of its own. */
class SharedThread extends EventEmitter {
  readonly #thread: Worker;
  readonly #port: MessagePort;
  readonly #spare: Worker[];
  readonly #onFree = (): void => this.#free();
  readonly #onError = (error: unknown): void => void this.emit('error', error);
  readonly #onExit = (code: number): void => void this.emit('exit', code);

  constructor({ Thread, spare }: Kept, script: URL, workerData: unknown) {
    super();
    const { port1, port2 } = new MessageChannel();
    this.#spare = spare;
    this.#port = port1;
    this.#port.on('message', (message) => this.emit('message', message));
    const waiting = spare.pop();
    this.#thread = waiting ?? new Thread(runner);
    this.#thread.on('message', this.#onFree).on('error', this.#onError).on('exit', this.#onExit).ref();
    // Node tells of a thread that it has started; this is one, too.
    const listeners: EventEmitter = process;
    if (waiting) process.nextTick(() => listeners.emit('worker', waiting));
    this.#thread.postMessage({ script: script.href, workerData, port: port2 }, [port2]);
  }

  postMessage(message: unknown, transfer: readonly Transferable[] = []): void {
    this.#port.postMessage(message, transfer);
  }

  /** The store has closed its port, as it does at the end of its thread. */
  #free(): void {
    this.#thread.off('message', this.#onFree).off('error', this.#onError).off('exit', this.#onExit).unref();
    if (this.#spare.length < mostSpare) this.#spare.push(this.#thread);
    else void this.#thread.terminate();
    this.emit('exit', 0);
  }
}

const threads = createRequire(import.meta.url)('node:worker_threads') as { Worker: typeof Worker };
const inProcess = globalThis as { sharedThreads?: Kept };
if (!inProcess.sharedThreads) {
  const kept = (inProcess.sharedThreads = { Thread: threads.Worker, spare: [] });
  threads.Worker = new Proxy(threads.Worker, {
    construct: (Thread, [script, options]: ConstructorParameters<typeof Worker>) =>
      script instanceof URL && isShared.test(script.pathname)
        ? new SharedThread(kept, script, options?.workerData)
        : new Thread(script, options),
  });
  syncBuiltinESMExports();
}

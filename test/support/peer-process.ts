// Honest and hostile clients and origins, each set in a process of its own: what one of them suffers is then the gateway's
// doing and not that of the others' event loop. The process ends with the one that started it.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { type HonestReport, type HonestTargets, serveHonestly } from './honest-clients.ts';
import { startHonestOrigins } from './honest-origins.ts';
import { attackApplications, type HostileEdge, startHostileOrigins } from './hostile-clients.ts';
import { type Attacked, attackHttp, startHostileHttpOrigin } from './hostile-http.ts';
import type { EdgeOf } from './proxy-gateway.ts';

const over = new AbortController();
let serving: Promise<HonestReport> | undefined;

/** What such a process can be told to do. Arguments and results go as JSON. */
const tasks = {
  startHonestOrigins,
  startHostileOrigins,
  startHostileHttpOrigin,
  /** One client of each kind for so many milliseconds. */
  serveFor: (at: HonestTargets, ms: number) => serveHonestly(at, AbortSignal.timeout(ms)),
  /** One client of each kind until `endServing`. */
  beginServing: async (at: HonestTargets): Promise<void> => {
    serving = serveHonestly(at, over.signal);
  },
  endServing: (): Promise<HonestReport> => {
    over.abort();
    return serving ?? Promise.reject(new Error('nobody is served'));
  },
  attack: async (
    http: Attacked,
    applications: { readonly edges: readonly HostileEdge[]; readonly udp: readonly EdgeOf[] },
    seconds: number,
  ) => {
    const [byHttp, byApplications] = await Promise.all([
      attackHttp(http, { seconds, clients: 60 }),
      attackApplications(applications.edges, applications.udp, { seconds, atOnce: 12 }),
    ]);
    return { http: byHttp, applications: byApplications };
  },
} as const;

type Tasks = typeof tasks;
type TaskName = keyof Tasks;

/** A running process. */
export interface PeerProcess {
  /** Has a task done there. @throws what the task throws, in words, or that the process has ended */
  run<Name extends TaskName>(name: Name, ...given: Parameters<Tasks[Name]>): ReturnType<Tasks[Name]>;
  /** Ends it; what it has open is reset or closed by the system. */
  end(): Promise<void>;
}

interface Order {
  readonly number: number;
  readonly name: TaskName;
  readonly given: readonly unknown[];
}

interface Answer {
  readonly number: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** Starts a process. */
export function startPeerProcess(): PeerProcess {
  // Not those of the test runner, which is no process of Node alone.
  const child: ChildProcess = fork(import.meta.filename, { execArgv: [] });
  const waiting = new Map<number, (answer: Answer) => void>();
  let given = 0;
  child.on('message', (answer: Answer) => {
    waiting.get(answer.number)?.(answer);
    waiting.delete(answer.number);
  });
  const ended = once(child, 'exit').then(([code, signal]) => {
    const error = `the process has ended with ${String(code ?? signal)}`;
    for (const [number, take] of waiting) take({ number, error });
    waiting.clear();
  });
  const run = async (name: TaskName, args: readonly unknown[]): Promise<unknown> => {
    given += 1;
    const order: Order = { number: given, name, given: args };
    const answer = await new Promise<Answer>((resolve) => {
      waiting.set(order.number, resolve);
      child.send(order);
    });
    if (answer.error !== undefined) throw new Error(`${name}: ${answer.error}`);
    return answer.result;
  };
  return {
    run: (name, ...args) => run(name, args) as ReturnType<Tasks[typeof name]>,
    async end() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function obey({ number, name, given }: Order): Promise<void> {
  const task = tasks[name] as (...args: readonly unknown[]) => Promise<unknown>;
  const answer: Answer = await task(...given).then(
    (result) => ({ number, result }),
    (error: unknown) => ({ number, error: String(error) }),
  );
  process.send?.(answer);
}

if (process.argv[1] === import.meta.filename) {
  process.on('message', (order: Order) => void obey(order));
  process.on('disconnect', () => process.exit());
}

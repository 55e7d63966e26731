// npm run bench:quick: what a change costs the way of a message. It runs this checkout and a commit in alternating rounds under the
// same load, in under two minutes, and prints how one compares with the other. `--help` tells the options.

import { rmSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { checkOut, git } from './checkout.ts';
import { measurePostern, type Run } from './measure.ts';
import { loadWarning, median } from './process-usage.ts';

const usage = `Usage: npm run bench:quick -- [options]
  --against COMMIT  what this checkout is compared with (default: the last commit where files have changed, else the one before)
  --sessions LIST   sessions of the generator (default 10,50)
  --messages N      messages a run, of 4 KB and with one signature (default 4000)
  --rounds N        rounds (default 3)
  --journal LEVEL   what the journal keeps (default none)

Needs Debian's postfix and a quiet machine. It says so where the load average is above 1 at its beginning.`;

const { values } = parseArgs({
  options: {
    against: { type: 'string' },
    sessions: { type: 'string', default: '10,50' },
    messages: { type: 'string', default: '4000' },
    rounds: { type: 'string', default: '3' },
    journal: { type: 'string', default: 'none' },
    help: { type: 'boolean', default: false },
  },
});

/** How many times as much one has as the other, as people read it. */
function ratio(now: readonly Run[], then: readonly Run[], pick: (run: Run) => number): string {
  const [left, right] = [median(now.map(pick)), median(then.map(pick))];
  const each = now.map((run, index) => pick(run) / pick(then[index] ?? run));
  const range = `${Math.min(...each).toFixed(2)} to ${Math.max(...each).toFixed(2)}`;
  return `${Math.round(right).toLocaleString('en')} -> ${Math.round(left).toLocaleString('en')} (${(left / right).toFixed(2)}; rounds ${range})`;
}

async function compare(commit: string): Promise<void> {
  const folder = checkOut(commit);
  try {
    for (const sessions of values.sessions.split(',').map(Number)) {
      const load = { messages: Number(values.messages), size: 4096, sessions };
      const shape = { signatures: 1, processes: 1, journal: values.journal, database: undefined };
      const [then, now]: [Run[], Run[]] = [[], []];
      for (let round = 0; round < Number(values.rounds); round += 1) {
        then.push(await measurePostern(load, { ...shape, root: folder }));
        now.push(await measurePostern(load, shape));
      }
      console.log(`${sessions} sessions`);
      console.log(`  relayed msg/s  ${ratio(now, then, (run) => run.messagesPerSecond)}`);
      console.log(`  CPU us/msg     ${ratio(now, then, (run) => run.cpuMicrosecondsPerMessage)}`);
      console.log(`  peak RSS MiB   ${ratio(now, then, (run) => run.peakMebibytes)}`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (values.help) console.log(usage);
else {
  const isChanged = git('status', '--porcelain', '--', 'src', 'package.json') !== '';
  const commit = git('rev-parse', '--short', values.against ?? (isChanged ? 'HEAD' : 'HEAD~1'));
  const here = `${git('rev-parse', '--short', 'HEAD')}${isChanged ? ' and what has changed since' : ''}`;
  console.log(`From ${commit} to ${here}; ${loadWarning()}`);
  await compare(commit);
}

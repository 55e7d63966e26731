// postern report --with judges again, by another configuration, what the journal has kept, or the messages of an archive.

import type { Config } from '../app/config/config.ts';
import { judgedBy } from '../app/wiring/build-parts.ts';
import { engineOf, rowsPerAccount } from '../app/wiring/engine/open-stores.ts';
import { UsageError } from '../base/errors.ts';
import { readArchive } from '../pipeline/report/archive/archive-files.ts';
import { archivedMessage } from '../pipeline/report/archive/archived-message.ts';
import { counted, printableJson } from '../pipeline/report/print.ts';
import { rehearse } from '../pipeline/report/rehearse.ts';
import {
  compareJournal,
  comparisonText,
  type JournalWanted,
  type PartsOf,
  VerdictComparison,
} from '../pipeline/report/would-pass.ts';
import type { CommandIo } from './command/command.ts';
import { ProgressLine } from './command/progress-line.ts';
import { withQueue } from './queue/open-queue.ts';

/** What is compared. */
interface Asked extends JournalWanted {
  /** Paths of an archive; empty: the journal is read. */
  readonly archive: readonly string[];
  readonly json: boolean;
}

async function compareKept(config: Config, partsOf: PartsOf, asked: Asked, progress: ProgressLine) {
  return await withQueue(config, async ({ spool }) => {
    const engine = await engineOf(config);
    const limits = { ...config.journal, ...rowsPerAccount(config) };
    const hooks = { caughtUp: () => spool.events.caughtUp(), onRemoved: () => undefined };
    const { journal } = await engine.openJournal(limits, hooks);
    try {
      const { since, account, credential, shadow } = asked;
      const onProgress = (done: number): void => progress.show(done, 0, counted(done, 'message'));
      return await compareJournal(journal, { since, account, credential, shadow }, { partsOf, onProgress });
    } finally {
      await journal.close();
    }
  });
}

/** Judges each message of an archive by both configurations. */
async function compareArchive(now: PartsOf, then: PartsOf, asked: Asked): Promise<VerdictComparison> {
  const { account = '', credential = '', archive } = asked;
  const present = now(account, credential);
  if (!present) throw new UsageError('An archive is judged as a credential: give --account and --credential');
  const other = then(account, credential);
  const comparison = new VerdictComparison();
  const domain = present.submitter.account.sendingDomains[0]?.name;
  const about = { reversePath: domain === undefined ? '' : `check@${domain}`, recipients: ['recipient@example.net'] };
  for await (const entry of readArchive(archive, { most: present.messageBytes, onOctets: () => undefined })) {
    if (entry.kind === 'skipped') {
      comparison.notKept += 1;
      continue;
    }
    const message = archivedMessage(entry);
    const { mailer, accepted } = await rehearse(message, { ...present, ...about });
    const reasons = other ? (await rehearse(message, { ...other, ...about })).reasons : [{ code: 'E_UNAUTHORIZED' }];
    const codes = [...new Set(reasons.map(({ code }) => code))];
    const before = accepted ? 'accepted' : 'refused';
    comparison.add({ account, credential, mailer, id: message.name, before, codes });
  }
  return comparison;
}

/** Tells what another configuration would make of what came. @returns the exit code */
export async function tellWouldPass(
  { config, other }: { readonly config: Config; readonly other: Config },
  asked: Asked,
  io: CommandIo,
): Promise<number> {
  const progress = new ProgressLine(io.stderr, 'Judging again');
  const then = judgedBy(other);
  const comparison = await (asked.archive.length > 0
    ? compareArchive(judgedBy(config), then, asked)
    : compareKept(config, then, asked, progress)
  ).finally(() => progress.end());
  const { notKept } = comparison;
  if (asked.json) io.stdout.write(`${printableJson({ mailers: comparison.rows(), notKept })}\n`);
  else io.stdout.write(`${comparisonText(comparison).join('\n')}\n`);
  return 0;
}

// Capture: final delivery into a Maildir, so that staging sees exactly the octets that would have left (D98). A file is
// written under tmp, synced and moved to new, and the folder is synced; only then is the message reported as delivered.

import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../base/database/sync-folder.ts';
import { errorMessage } from '../base/errors.ts';
import { lazily } from '../base/load/lazily.ts';
import { Part } from '../base/part.ts';
import { headFor, type Task } from './job.ts';
import type { CaptureRoute } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';
import type { TaskQueue } from './task-queue.ts';
import type { DestinationView, HopAdmission, Transport, TransportEvents } from './transport.ts';

/** How many files are written at once. */
const writers = 16;

/** A Maildir. */
export class Maildir {
  readonly #folder: string;
  readonly #make: () => Promise<void>;
  #count = 0;

  /** @param folder absolute path; it and its tmp, new and cur are created with the first message */
  constructor(folder: string) {
    this.#folder = folder;
    this.#make = lazily(async () => {
      for (const name of ['tmp', 'new', 'cur']) await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
      await syncFolder(folder);
    });
  }

  /** Writes a message to disk, in place of one of the same name that a crash left unrecorded. @param name without `.eml` */
  async write(name: string, parts: readonly Buffer[]): Promise<void> {
    await this.#make();
    this.#count += 1;
    const temporary = join(this.#folder, 'tmp', `${name}.${process.pid}.${this.#count}`);
    try {
      await using handle = await open(temporary, 'wx', 0o600);
      const { bytesWritten } = await handle.writev([...parts]);
      const size = parts.reduce((sum, part) => sum + part.length, 0);
      if (bytesWritten !== size) throw new Error(`only ${bytesWritten} of ${size} octets could be written`);
      await handle.sync();
      await rename(temporary, join(this.#folder, 'new', `${name}.eml`));
    } catch (thrown) {
      await rm(temporary, { force: true });
      throw thrown;
    }
    await syncFolder(join(this.#folder, 'new'));
  }
}

interface CaptureParts {
  readonly route: CaptureRoute;
  readonly queue: TaskQueue;
  readonly events: TransportEvents;
}

/** The capture route at work. */
export class CaptureTransport extends Part<CaptureParts> implements Transport {
  active = 0;
  readonly route = this.parts.route;
  readonly recipientsPerTask = Number.POSITIVE_INFINITY;
  readonly connections = 0;
  readonly #maildir = new Maildir(this.route.folder);
  readonly #host = `${this.route.name} (${this.route.folder})`;

  constructor(parts: CaptureParts) {
    super(parts);
    parts.queue.onReady = () => this.#pump();
  }

  push(task: Task): void {
    this.parts.queue.push(task);
    this.#pump();
  }

  fill(): void {
    this.parts.queue.fill();
  }

  admits(): HopAdmission {
    return { messages: Number.POSITIVE_INFINITY };
  }

  giveBackWhere(isUnwanted: (task: Task) => boolean): void {
    this.parts.queue.giveBackWhere(isUnwanted);
  }

  destinations(): readonly DestinationView[] {
    const { active } = this;
    const { name, folder } = this.route;
    const view = { key: folder, label: this.#host, route: name, domains: [], connections: 0, waitMs: 0 };
    return [{ ...view, allowed: writers, most: writers, waiting: this.parts.queue.length, active }];
  }

  pause(isPaused: boolean): void {
    this.parts.queue.pause(isPaused);
  }

  stop(): void {
    this.parts.queue.stop();
  }

  abort(): void {
    // A write that is under way finishes by itself.
    this.parts.queue.stop();
  }

  #pump(): void {
    while (this.active < writers) {
      const task = this.parts.queue.pull();
      if (!task) return;
      this.active += 1;
      void this.#run(task);
    }
  }

  async #run(task: Task): Promise<void> {
    const result = await this.#capture(task);
    this.active -= 1;
    const results = task.recipients.map(() => result);
    this.parts.events.finish(task, results, this.#host);
    this.#pump();
  }

  async #capture({ job }: Task): Promise<RecipientResult> {
    const { entry, content } = job;
    try {
      if (!content) throw new Error('its octets are not in memory');
      // RFC 5321 §4.4: Return-Path is the first field. No field names the recipients: some are blind copies (D22, D26).
      const returnPath = Buffer.from(`Return-Path: <${entry.reversePath}>\r\n`, 'utf8');
      await this.#maildir.write(entry.id, [returnPath, ...headFor(content, entry, this.route), content.body]);
      const reply = { code: 250, enhanced: '2.0.0', text: `Captured as ${entry.id}.eml` };
      return { kind: 'delivered', reply, handover: 'final' };
    } catch (thrown) {
      const text = `Cannot capture the message: ${errorMessage(thrown)}`;
      return { kind: 'deferred', reply: { code: 451, enhanced: '4.3.0', text } };
    }
  }
}

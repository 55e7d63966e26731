// What sends mail to gateways on one PostgreSQL, and what has arrived of it.

import pg from 'pg';
import { deviceConfiguration } from './device-config.ts';
import type { FaultSink } from './fault-sink.ts';
import type { PosternOptions } from './postern-process.ts';
import { connectSmtp } from './raw-smtp-client.ts';

/** A gateway that relays to the sink and retries every second. */
export function relaySettings(sink: FaultSink, url: string): PosternOptions {
  const route = { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none', connections: 4 };
  const config = {
    ...deviceConfiguration({
      routes: [route],
      delivery: { retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 } },
    }),
    database: { url: 'postgres://nobody@127.0.0.1:1/none', takeOverSeconds: 5 },
  };
  return { config, env: { POSTERN_DATABASE_URL: url } };
}

/** What senders heard for each message: a reply code, or 0 for none. */
export class Senders {
  readonly answers = new Map<string, number>();
  #serial = 0;
  #isOver = false;

  readonly #name: string;

  /** @param name begins the mark of each message */
  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Sends messages one after another until it is stopped; begins anew when the connection breaks.
   * @param port of the gateway that takes mail now; undefined while there is none
   */
  async run(port: () => number | undefined): Promise<void> {
    while (!this.#isOver) {
      const at = port();
      if (at !== undefined) await this.#session(at).catch(() => undefined);
      await new Promise((wait) => setTimeout(wait, 20));
    }
  }

  stop(): void {
    this.#isOver = true;
  }

  marks(isWanted: (code: number) => boolean): readonly string[] {
    return [...this.answers].filter(([, code]) => isWanted(code)).map(([mark]) => mark);
  }

  async #session(port: number): Promise<void> {
    const client = await connectSmtp(port);
    try {
      await client.reply();
      await client.command('EHLO load.example.com');
      while (!this.#isOver) {
        const mark = `${this.#name}${(this.#serial += 1)}`;
        // The first refusal counts: after a refused MAIL, DATA is out of order.
        let { code } = await client.command('MAIL FROM:<a@example.com>');
        if (code === 250) ({ code } = await client.command(`RCPT TO:<${mark}@one.test>`));
        if (code === 250) ({ code } = await client.command('DATA'));
        if (code !== 354) {
          await client.command('RSET');
          this.answers.set(mark, code);
          await new Promise((wait) => setTimeout(wait, 50));
          continue;
        }
        this.answers.set(mark, 0);
        client.write(`From: a@example.com\r\nTo: b@partner.test\r\nSubject: load\r\n\r\n${mark}\r\n.\r\n`);
        this.answers.set(mark, (await client.reply()).code);
      }
    } finally {
      client.close();
    }
  }
}

/** How often each recipient's mail has arrived, by its mark. */
export function arrivals({ messages }: FaultSink): Map<string, number> {
  const seen = new Map<string, number>();
  for (const { recipients } of messages) {
    for (const recipient of recipients) {
      const mark = recipient.split('@', 1)[0] ?? '';
      seen.set(mark, (seen.get(mark) ?? 0) + 1);
    }
  }
  return seen;
}

/** Asks a database of PostgreSQL. */
export async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

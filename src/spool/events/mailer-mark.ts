// Finds the mark of the program that made a message: a field in which it names itself. The mark is kept with an event, so
// that a report can tell which program has to be changed.

import type { HeaderField } from '../../mail/header/header-field.ts';

/** The longest mark, in octets. */
const MAX_MAILER_OCTETS = 200;

/** Fields in which programs name themselves (lower case), the most informative first, with the spelling to show. */
const namingFields: ReadonlyMap<string, string> = new Map([
  ['user-agent', 'User-Agent'],
  ['x-mailer', 'X-Mailer'],
  ['x-php-originating-script', 'X-PHP-Originating-Script'],
  ['x-cron-env', 'X-Cron-Env'],
]);
const rank = new Map([...namingFields.keys()].map((key, at) => [key, at]));

/** Octets of a value that are examined: blanks and folds beyond the kept text are few. */
const lookedAt = MAX_MAILER_OCTETS * 2;

function printed({ rawBytes }: HeaderField): string {
  const text = rawBytes.toString('latin1', 0, lookedAt).replace(/[\t\r\n ]+/g, ' ');
  return text.trim().replace(/[^\x20-\x7e]/g, '?');
}

/**
 * Gives the mark of a message's program: `User-Agent: s-nail v14.9.24`. Among several such fields User-Agent wins over
 * X-Mailer, and both over what PHP and cron add. Of X-Cron-Env only the name is kept, because its value may be a secret of
 * the environment.
 * @returns printable ASCII of at most 200 octets; undefined where no field names a program
 */
export function mailerOf(fields: readonly HeaderField[]): string | undefined {
  let found: HeaderField | undefined;
  let best = Number.POSITIVE_INFINITY;
  for (const field of fields) {
    const at = rank.get(field.name.toLowerCase()) ?? Number.POSITIVE_INFINITY;
    if (at >= best) continue;
    best = at;
    found = field;
  }
  if (!found) return undefined;
  const key = found.name.toLowerCase();
  const name = namingFields.get(key) ?? key;
  if (key === 'x-cron-env') return name;
  return `${name}: ${printed(found)}`.slice(0, MAX_MAILER_OCTETS).trimEnd();
}

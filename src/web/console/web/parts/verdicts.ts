// What became of each header field, why, and what would cure a refusal.

import { h, type JSX } from 'preact';
import type { Cure, FieldVerdict, FileChange, MessageFault } from '../state/shapes.ts';
import { writeCounted } from '../text/amounts.ts';
import { headerPath } from '../text/route-path.ts';
import { CopyButton } from './controls.ts';
import { box, el, Foreign, foreign, Icon, State, verdictWords } from './element.ts';
import { type Column, column, Table } from './list.ts';

function changeBox({ file, line, diff }: FileChange): JSX.Element {
  return el('div')(
    el('div.box-head')(
      el('span')(
        'Or replace these lines of ',
        el('bdi')(file),
        `, line ${line}; the configuration is valid with them:`,
      ),
      h(CopyButton, { text: diff, label: 'Copy the change' }),
    ),
    box(diff, 20_000),
  );
}

/** A cure with its lines and a button that copies them. @param change where the lines go in the configuration file */
export function cureBox({ kind, text, yaml }: Cure, change?: FileChange): JSX.Element {
  return el('div.cure')(
    el('div.box-head')(
      el('span.cure-word')(kind === 'config' ? 'Cure: in the configuration' : 'Cure: in the program'),
      h(CopyButton, { text: yaml ?? text, label: yaml ? 'Copy the lines' : 'Copy' }),
    ),
    el('p')(foreign(text)),
    yaml ? box(yaml, 4000) : null,
    change && changeBox(change),
  );
}

const columns: readonly Column<FieldVerdict>[] = [
  column('tight', 'Verdict', ({ verdict, added }) =>
    h(State, { state: verdict, words: verdictWords(added ? 'added' : verdict) }),
  ),
  column('name', 'Header', ({ name }) =>
    el('a', { href: headerPath(name), target: '_blank', rel: 'noopener' })(el('strong')(foreign(name, 100))),
  ),
  column('wide', 'Value as it came', ({ value }) =>
    value
      ? el('span.mono')(h(Foreign, { text: value, lines: true, most: 300 }))
      : el('span.soft')(value === '' ? 'empty' : 'not kept'),
  ),
  column('rule', 'Rule', ({ code, message, rule, reference }) => [
    code ? el('code')(code) : null,
    message ? el('p')(foreign(message)) : null,
    rule ? el('span.sub')(foreign(rule)) : null,
    reference ? el('span.sub')(reference) : null,
  ]),
];

/** What one looks for comes first: what was refused, then what was taken out; all others in the order of the message. */
const firstVerdicts = ['refused', 'stripped'];

/** The table of all fields. */
export function VerdictTable({ verdicts }: { readonly verdicts: readonly FieldVerdict[] }): JSX.Element {
  const rows = [
    ...firstVerdicts.flatMap((first) => verdicts.filter(({ verdict }) => verdict === first)),
    ...verdicts.filter(({ verdict }) => !firstVerdicts.includes(verdict)),
  ];
  return h(Table<FieldVerdict>, { label: 'Verdicts', columns, rows, keyOf: (_, index) => String(index) });
}

/** The reasons of a refusal, each with its cure. @param count how many there are; more than are told where it is greater */
export function reasonsPanel(
  reasons: readonly MessageFault[],
  title: string,
  count = reasons.length,
): JSX.Element | null {
  if (reasons.length === 0) return null;
  return el('section.reasons')(
    el('h2')(h(Icon, { name: 'box' }), title),
    el('ul')(
      reasons.map(({ field, code, message, cure }, index) =>
        el('li', { key: index })(
          el('p.reason')(
            field ? el('strong')(foreign(field, 100)) : null,
            el('span')(foreign(message)),
            code ? el('code.soft')(code) : null,
          ),
          cure && cureBox(cure),
        ),
      ),
      count > reasons.length ? el('li')(`And ${writeCounted(count - reasons.length, 'more reason')}.`) : null,
    ),
  );
}

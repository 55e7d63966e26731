// The domains that the account may send from, and what has to stand in DNS for each.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, CopyButton } from '../parts/controls.ts';
import { el, foreign, State, Time } from '../parts/element.ts';
import { awaited, empty, pageHead, panel } from '../parts/surfaces.ts';
import { ask, useAnswer } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { accountOnlyPath } from '../state/session.ts';
import type { DnsRecord, SendingDomain } from '../state/shapes.ts';
import { writeCounted } from '../text/amounts.ts';

const path = '/email/sending/domains';

const purposes: Readonly<Record<string, string>> = {
  dkim: 'The key that receivers verify signatures with',
  spf: 'Says which hosts send mail with this return path',
  mx: 'Where bounces come back to',
  dmarc: 'Says what receivers do with mail that fails',
};

function Record({ record }: { readonly record: DnsRecord }): JSX.Element {
  const { check } = record;
  return el('li.record')(
    el('div')(el('strong')(record.purpose.toUpperCase()), el('p.soft')(record.type)),
    el('div')(
      el('code')(foreign(record.name, 253)),
      el('pre')(foreign(record.value, 600)),
      el('p.hint')(
        purposes[record.purpose] ?? '',
        record.published_by === 'platform' ? '. The operator of the platform publishes it.' : '.',
      ),
      record.remark ? el('p.hint')(record.remark) : null,
      check &&
        (check.detail !== undefined || check.found.length > 0) &&
        check.state !== 'ok' &&
        el('div.found')(
          check.detail === undefined ? null : el('p')(foreign(check.detail)),
          check.found.map((found) => el('pre', { key: found })(foreign(found, 600))),
        ),
    ),
    el('div.row-actions')(
      check ? h(State, { state: check.state }) : null,
      h(CopyButton, { text: record.zone, label: 'Copy zone line' }),
    ),
  );
}

function summary(domain: SendingDomain): string | undefined {
  const checked = domain.records.filter(({ check }) => check !== undefined);
  if (checked.length === 0) return undefined;
  const open = checked.filter(({ check }) => check?.state !== 'ok').length;
  return open === 0
    ? 'All records are in place.'
    : `${open} of ${writeCounted(checked.length, 'record')} not in place.`;
}

function domainPanel(domain: SendingDomain): JSX.Element {
  const { name, subdomains, return_path_domain: returnPath, records } = domain;
  const below = subdomains ? 'Names below it may send too. ' : null;
  return panel({
    key: name,
    title: name,
    note: [below, 'Return path: ', el('code')(returnPath), '. ', summary(domain)],
  })(el('ul.records')(records.map((record) => h(Record, { record, key: `${record.purpose} ${record.name}` }))));
}

/** The page. */
export function Page(): JSX.Element {
  const asked = useAnswer<readonly SendingDomain[]>(accountOnlyPath(path));
  const [checked, setChecked] = useState<readonly SendingDomain[]>();
  const loaded = { ...asked, value: checked ?? asked.value };
  const check = async (): Promise<void> => {
    const { result } = await ask<readonly SendingDomain[]>(accountOnlyPath(`${path}?check=1`));
    setChecked(result);
    tell('DNS was checked.');
  };
  return el('div')(
    pageHead(
      'Domains',
      'The domains that this account may send from, and the records that DNS has to have for each.',
      loaded.value &&
        loaded.value.length > 0 &&
        el(Button, { kind: 'main', icon: 'reload', onPress: check })('Check DNS now'),
    ),
    awaited(loaded, 'Loading domains', (domains) => {
      const at = domains.find((one) => one.checked_at !== undefined)?.checked_at;
      if (domains.length > 0)
        return [at && el('p.soft')('DNS was checked ', h(Time, { at }), '.'), domains.map(domainPanel)];
      const what = 'Name its domains under sendingDomains in the configuration.';
      return empty('This account may send from no domain', 'domains')(what);
    }),
  );
}

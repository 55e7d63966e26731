// An edge error as a page for a person: what happened, what to do, who is responsible, and what to quote when asking.

import { oncePer } from '../../base/once-per.ts';
import {
  closePage,
  escapeForeignText,
  escapeHtml,
  openPage,
  pageStyle,
  sheetCss,
} from '../../web/http/page/html-page.ts';
import type { EdgeError, EdgeOccurrence } from './edge-error.ts';
import {
  attribution,
  errorHeading,
  referenceUrlOf,
  responsiblePartyOf,
  retrySecondsOf,
  timestampOf,
  titleOf,
  whoActs,
} from './occurrence.ts';

const style = pageStyle(`${sheetCss}.lead{font-size:1.125rem}
strong{font-weight:600}
@media print{body{padding:0}}
`);

/** Admits the style of the page and nothing else. */
export const errorPageSecurityPolicy = style.contentSecurityPolicy;

// The part of a body that no occurrence changes is made once.
const fixedParts = oncePer((error: EdgeError) => ({
  opening: `${openPage(titleOf(error), style)}<main>
${errorHeading(error)}
<section aria-labelledby="happened">
<h2 id="happened">What happened</h2>
<p class="lead">${escapeHtml(error.detail)}</p>
</section>
<section aria-labelledby="advice">
<h2 id="advice">What you can do</h2>
`,
  facts: `<p>${escapeHtml(error.guidance)}</p>
</section>
<dl>
<dt>Responsible</dt><dd>${escapeHtml(responsiblePartyOf(error))}</dd>
<dt>Who has to act</dt><dd>${escapeHtml(whoActs(error))}</dd>
<dt>Site</dt><dd><bdi>`,
}));

/** The link to the page about the error, where there is one to follow. */
function referenceLink(occurrence: EdgeOccurrence): string {
  const url = referenceUrlOf(occurrence);
  const about = `About error ${occurrence.error.code}`;
  return url === undefined ? '' : ` <a href="${escapeHtml(url)}" rel="noreferrer">${about}</a>`;
}

function inWords(seconds: number): string {
  if (seconds >= 60 && seconds % 60 === 0) return seconds === 60 ? '1 minute' : `${seconds / 60} minutes`;
  return seconds === 1 ? '1 second' : `${seconds} seconds`;
}

/** `2026-01-31T23:59:00.000Z` as `2026-01-31 23:59:00 UTC`. */
function clockText(timestamp: string): string {
  return `${timestamp.slice(0, 10)} ${timestamp.slice(11, 19)} UTC`;
}

function retryLine(occurrence: EdgeOccurrence): string {
  const seconds = retrySecondsOf(occurrence);
  if (seconds === undefined) return '';
  const from = new Date(occurrence.at + seconds * 1000).toISOString();
  return `<p><strong>Try again in ${inWords(seconds)}</strong>, at <time datetime="${from}">${from.slice(11, 19)} UTC</time> or later.</p>\n`;
}

/** Renders the page; everything in it is escaped, whatever the Host was. */
export function renderHtml(occurrence: EdgeOccurrence): string {
  const { opening, facts } = fixedParts(occurrence.error);
  const timestamp = timestampOf(occurrence);
  return `${opening}${retryLine(occurrence)}${facts}${escapeForeignText(occurrence.zone)}</bdi></dd>
<dt>Ray ID</dt><dd><code>${escapeForeignText(occurrence.rayId)}</code></dd>
<dt>Time</dt><dd><time datetime="${timestamp}">${clockText(timestamp)}</time></dd>
</dl>
</main>
<footer>
<p>${attribution}${referenceLink(occurrence)}</p>
</footer>
${closePage}`;
}

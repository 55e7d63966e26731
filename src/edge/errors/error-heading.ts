// The title of every page about an error.

import { escapeHtml } from '../../http/page/html-page.ts';

/** The first-level heading of an error: its number above its name, read as one title. */
export function errorHeading(code: number, shortName: string): string {
  return `<h1><span>Error ${code}<i>: </i></span>${escapeHtml(shortName)}</h1>`;
}

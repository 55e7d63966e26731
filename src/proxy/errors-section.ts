// The part of docs/errors.md about the proxy-application API, written from its rules.

/** Renders the section. Markdown, beginning with a second-level heading; empty where there is nothing to tell. */
export function renderProxyErrors(): string {
  return '';
}

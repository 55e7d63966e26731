// The part of docs/errors.md about edge errors, written from the catalogue.

/** Renders the section. Markdown, beginning with a second-level heading; empty where there is nothing to tell. */
export function renderEdgeErrors(): string {
  return '';
}

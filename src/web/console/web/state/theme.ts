// Light or dark: what the system says, unless the reader has chosen. `early.ts` reads the same choice before the first drawing.

import { signal } from '@preact/signals';

/** What the reader may choose. */
export type Theme = 'system' | 'light' | 'dark';

const key = 'postern-theme';

function stored(): Theme {
  const chosen = document.documentElement.dataset['theme'];
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system';
}

/** What was chosen. */
export const theme = signal<Theme>(stored());

/** Chooses, for this page and, where the browser keeps it, for later ones. */
export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  document.documentElement.dataset['theme'] = chosen;
  try {
    localStorage.setItem(key, chosen);
  } catch {
    // A browser that keeps nothing refuses. The choice then holds until the page is closed.
  }
}

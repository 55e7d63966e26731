// Runs before the page is drawn: puts the chosen colours in force, so that the page does not flash in others. It is no module,
// because modules run only once the document has been read.

try {
  const chosen = localStorage.getItem('postern-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset['theme'] = chosen;
} catch {
  // A browser that keeps nothing refuses the access; the colours are those of the system then.
}

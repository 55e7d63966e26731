// Puts the chosen colours in force before the page is drawn. No module, because these run once the document is read.

try {
  const chosen = localStorage.getItem('postern-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset['theme'] = chosen;
} catch {
  // A browser that keeps nothing refuses the access; the colours are those of the system then.
}

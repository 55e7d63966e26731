// Judges how deep HTML is nested, without parsing it: a browser takes many seconds to parse some ten thousand elements that nobody
// closes, since it looks through those that are open at each further one.

/** Elements that may be open at once. */
const mostOpen = 2000;

/** Elements that have no content, and those that the next one of their kind closes. */
const closed = new Set(
  (
    'area base br col embed hr img input link meta param source track wbr ' +
    'p li dt dd option tr td th tbody thead tfoot html head body'
  ).split(' '),
);

/** Whether a browser would take long to parse HTML, judged by the tags that nothing closes; a bit too strict with broken HTML. */
export function isTooDeep(html: string): boolean {
  const open = new Map<string, number>();
  let all = 0;
  for (const [, slash, given = ''] of html.matchAll(/<(\/?)([a-z][^\s/>]{0,40})/gi)) {
    const name = given.toLowerCase();
    if (closed.has(name)) continue;
    const count = open.get(name) ?? 0;
    if (slash === '') {
      open.set(name, count + 1);
      all += 1;
      if (all > mostOpen) return true;
    } else if (count > 0) {
      open.set(name, count - 1);
      all -= 1;
    }
  }
  return false;
}

// Figures that the gateway knows only as they are now, kept for as long as a page is open.

import { useEffect, useRef, useState } from 'preact/hooks';

/** A figure at a time, in milliseconds since 1970. */
export interface Sample<Figures> {
  readonly at: number;
  readonly figures: Figures;
}

/** The most that are kept. */
const mostSamples = 360;

/** Keeps what `read` says of each new answer. @param answer undefined: nothing has come yet */
export function useSamples<Answer extends object, Figures>(
  answer: Answer | undefined,
  read: (answer: Answer) => Figures,
): readonly Sample<Figures>[] {
  const [samples, setSamples] = useState<readonly Sample<Figures>[]>([]);
  const before = useRef<Answer>(undefined);
  useEffect(() => {
    if (!answer || before.current === answer) return;
    before.current = answer;
    setSamples((kept) => [...kept.slice(1 - mostSamples), { at: Date.now(), figures: read(answer) }]);
  }, [answer]);
  return samples;
}

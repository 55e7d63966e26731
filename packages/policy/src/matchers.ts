// A matcher for vitest and jest, which take the same: expect(message).toPassPostern().

import { judge } from './judge.ts';
import type { JudgeInput, Judgement, JudgeOptions } from './types.ts';

/** The answer of a matcher. */
interface Answer {
  readonly pass: boolean;
  readonly message: () => string;
}

/** Passes where a gateway would accept the message. The built matcher answers at once, as the built `judge` does. */
export async function toPassPostern(received: JudgeInput, options?: JudgeOptions): Promise<Answer> {
  const { verdict, violations }: Judgement = await judge(received, options);
  const reasons = violations.map(({ code, message }) => `  ${code}: ${message}`).join('\n');
  return {
    pass: verdict === 'accepted',
    message: () =>
      verdict === 'accepted'
        ? 'Postern would accept the message, which was not expected'
        : `Postern would refuse the message:\n${reasons}`,
  };
}

export default { toPassPostern };

// Bounds that no test held before.

import { of } from '../guard.ts';

const wouldPass = ['test/web/admin/would-pass.test.ts'];
const fold = ['test/mail/header/fold.test.ts'];

/** Bounds that no test held before. */
export const bounds = [
  ...of('mail/header/fold.ts', fold, [
    ['const preferredLineLength = 78', 'const preferredLineLength = 79'],
    ['const preferredLineLength = 78', 'const preferredLineLength = 77'],
    ['const encodedWordLineLength = 76', 'const encodedWordLineLength = 77'],
    ['const encodedWordLineLength = 76', 'const encodedWordLineLength = 75'],
    ['export const maximumLineLength = 998', 'export const maximumLineLength = 999'],
    ['export const maximumLineLength = 998', 'export const maximumLineLength = 997'],
    ['for (let index = start + limit; index > first', 'for (let index = start + limit + 1; index > first'],
    ['if (whole.length - start <= limit) return whole.length', 'if (whole.length - start < limit) return whole.length'],
    ['if (whole.length <= encodedWordLineLength && ', 'if (whole.length <= 79 && '],
    ['for (let index = Math.max(start + limit, first) + 1;', 'for (let index = Math.max(start + limit, first) + 2;'],
    ['const uriPieceLength = 900', 'const uriPieceLength = 901'],
    ['!hasEncodedWord(whole.slice(start, end))', 'hasEncodedWord(whole.slice(start, end))'],
    ['return wordEnd - runStart <= limit ? runStart : index', 'return runStart'],
    ['return wordEnd - runStart <= limit ? runStart : index', 'return index'],
    ['hasEncodedWord(whole.slice(index, wordEnd))', 'hasEncodedWord(whole.slice(index, index))'],
    ['while (isBlank(whole.charCodeAt(first))) first += 1', ''],
  ]),
  ...of(
    'web/http/request-body.ts',
    ['test/web/http/body-room.test.ts'],
    [
      ["account: account?.id ?? ''", "account: ''"],
      ['credential && { credential: credential.name }', 'credential && {}'],
    ],
  ),
  ...of(
    'doors/smtp/dialogue.ts',
    ['test/doors/smtp/room.test.ts'],
    [["door: 'smtp', account: this.submitter?.account.id ?? ''", "door: 'smtp', account: ''"]],
  ),
  ...of(
    'edge/custom/custom-errors.ts',
    ['test/edge/custom/custom-errors.test.ts > take long to read'],
    [["this.#learning('', () => this.#learn())", 'this.#learn()']],
  ),
  ...of('web/admin/journal/would-pass-endpoint.ts', wouldPass, [
    ['const mostMessages = 10_000', 'const mostMessages = 10_001'],
    ['done < mostMessages && ', ''],
    ['const mostMs = 15_000', 'const mostMs = 16_000'],
    ['clock.monotonic() < until && ', ''],
    [' && !isGone()', ''],
    ['socket.destroyed || socket.readableEnded', 'socket.destroyed'],
    ['if (isJudging)', 'if (false)'],
    ['finally {\n        isJudging = false;', 'finally {'],
  ]),
];

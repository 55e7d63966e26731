// Prepares the content of a transaction for sending: a dot before each line that begins with one, and the end of data
// (RFC 5321 §4.5.2). A piece without such a line leaves as it is, uncopied.

const dot = 0x2e;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const lineFeedDot = Buffer.from('\n.');
const endAfterLine = Buffer.from('.\r\n');
const endAfterText = Buffer.from('\r\n.\r\n');

/** Content is given in pieces of about this many octets, so that a large body is never in memory twice. */
const pieceOctets = 256 * 1024;

/** Copies a piece with its dots doubled; `hits` are the offsets of the dots, ascending. */
function doubled(piece: Buffer, hits: readonly number[]): Buffer {
  const stuffed = Buffer.allocUnsafe(piece.length + hits.length);
  let from = 0;
  let to = 0;
  for (const hit of hits) {
    piece.copy(stuffed, to, from, hit);
    to += hit - from;
    stuffed[to] = dot;
    to += 1;
    from = hit;
  }
  piece.copy(stuffed, to, from);
  return stuffed;
}

function stuffPiece(piece: Buffer, atLineStart: boolean): Buffer {
  const hits: number[] = atLineStart && piece[0] === dot ? [0] : [];
  for (let at = piece.indexOf(lineFeedDot); at >= 0; at = piece.indexOf(lineFeedDot, at + 2)) hits.push(at + 1);
  return hits.length === 0 ? piece : doubled(piece, hits);
}

/**
 * Gives a message's content in pieces, dots doubled, then the end of data. A message that does not end with CRLF gets
 * one, because the end of data requires it.
 * @param parts the message's octets, CRLF throughout, cut anywhere
 */
export function* stuffedContent(parts: readonly Buffer[]): Generator<Buffer, void, undefined> {
  let last = lineFeed;
  let beforeLast = carriageReturn;
  for (const part of parts) {
    for (let start = 0; start < part.length; start += pieceOctets) {
      const piece = part.subarray(start, start + pieceOctets);
      yield stuffPiece(piece, last === lineFeed);
      beforeLast = piece.length > 1 ? (piece[piece.length - 2] ?? 0) : last;
      last = piece[piece.length - 1] ?? 0;
    }
  }
  // A lone LF is no line end: the dot behind it would not be the end of data.
  yield last === lineFeed && beforeLast === carriageReturn ? endAfterLine : endAfterText;
}

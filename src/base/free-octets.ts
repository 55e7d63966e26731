// Memory that is given back at once instead of by the garbage collector.

/**
 * Gives the memory of a piece back. Left to themselves, pieces of 64 KiB make the garbage collector walk the whole heap
 * again and again, or stay until it does. Only memory that is the piece's alone is freed, never that of a pool.
 * @param piece one that nobody reads any more
 */
export function freeOctets(piece: Buffer): void {
  const { buffer } = piece;
  if (piece.length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/**
 * Frees the memory of a buffer at once. Otherwise buffers of 64 KiB make the garbage collector walk the whole heap again and again,
 * or stay until it does. Only memory that belongs to the buffer alone is freed, never that of a pool.
 * @param piece a buffer that nobody reads any more
 */
export function freeOctets(piece: Buffer): void {
  const { buffer } = piece;
  if (piece.length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

// Bytes as a program may hand them over, and their base64 (RFC 4648 §4), without Buffer: not every runtime has one.

/** Bytes in any form that JavaScript has for them; a Buffer is a Uint8Array. */
export type Bytes = ArrayBuffer | ArrayBufferView;

/** Tells bytes from everything else, also bytes that another realm made (a frame, a `vm` context). */
export function isBytes(value: unknown): value is Bytes {
  return ArrayBuffer.isView(value) || Object.prototype.toString.call(value) === '[object ArrayBuffer]';
}

/** A view of the same memory as octets; nothing is copied. */
export function octetsOf(bytes: Bytes): Uint8Array {
  return ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
}

/** Octets that are encoded at once: a multiple of three, so that no padding stands between two pieces. */
const pieceOctets = 12_288;

/** Writes bytes in base64, with padding and without line breaks. */
export function base64(bytes: Bytes): string {
  const octets = octetsOf(bytes);
  const pieces: string[] = [];
  for (let start = 0; start < octets.length; start += pieceOctets) {
    let piece = '';
    for (const octet of octets.subarray(start, start + pieceOctets)) piece += String.fromCharCode(octet);
    pieces.push(btoa(piece));
  }
  return pieces.join('');
}

// Messages over a stream between processes: a value, serialised as between threads, and the octets that belong to it, which are
// neither serialised nor copied on their way out.

import type { Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';

/** A message as it comes. */
export interface Frame {
  readonly value: unknown;
  /** A buffer of its own. */
  readonly octets: Buffer;
}

const headerBytes = 8;
/** A longer frame is no frame of ours. */
const mostBytes = 1_073_741_824;

/** Writes one message. @param octets must not change afterwards */
export function writeFrame(socket: Socket, value: unknown, octets: Uint8Array = new Uint8Array()): void {
  if (socket.destroyed || socket.writableEnded) return;
  const serialised = serialize(value);
  const header = Buffer.allocUnsafe(headerBytes);
  header.writeUInt32LE(serialised.length, 0);
  header.writeUInt32LE(octets.length, 4);
  socket.cork();
  socket.write(header);
  socket.write(serialised);
  if (octets.length > 0) socket.write(octets);
  socket.uncork();
}

/** Reads messages, and cuts a connection that sends something else. */
export function readFrames(socket: Socket, take: (frame: Frame) => void): void {
  let chunks: Buffer[] = [];
  let length = 0;
  let wanted = headerBytes;
  let sizes: { readonly value: number; readonly octets: number } | undefined;

  /** The next `wanted` octets. */
  function cut(): Buffer {
    const all = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, length);
    const part = all.subarray(0, wanted);
    length = all.length - wanted;
    chunks = length > 0 ? [all.subarray(wanted)] : [];
    return part;
  }

  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    length += chunk.length;
    while (length >= wanted) {
      const part = cut();
      if (!sizes) {
        sizes = { value: part.readUInt32LE(0), octets: part.readUInt32LE(4) };
        wanted = sizes.value + sizes.octets;
        if (wanted > mostBytes) socket.destroy();
        continue;
      }
      const { value } = sizes;
      sizes = undefined;
      wanted = headerBytes;
      take({ value: deserialize(part.subarray(0, value)), octets: part.subarray(value) });
    }
  });
}

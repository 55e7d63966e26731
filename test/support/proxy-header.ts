// Writes PROXY protocol version 2 headers, right and wrong ones.

import ipaddr from 'ipaddr.js';

/** What stands in the header; whatever is left out is right. */
export interface ProxyV2Parts {
  readonly address?: string;
  readonly port?: number;
  readonly version?: number;
  readonly command?: number;
  readonly family?: number;
  readonly body?: Buffer;
  readonly tlv?: Buffer;
  readonly declaredLength?: number;
}

/** Writes the header; the destination is `::`/`0.0.0.0` port 25. */
export function proxyV2(parts: ProxyV2Parts): Buffer {
  const octets = ipaddr.parse(parts.address ?? '192.0.2.1').toByteArray();
  const ports = Buffer.alloc(4);
  ports.writeUInt16BE(parts.port ?? 0, 0);
  ports.writeUInt16BE(25, 2);
  const addresses = parts.body ?? Buffer.concat([Buffer.from(octets), Buffer.alloc(octets.length), ports]);
  const body = Buffer.concat([addresses, parts.tlv ?? Buffer.alloc(0)]);
  const head = Buffer.alloc(16);
  head.write('\r\n\r\n\0\r\nQUIT\n', 'latin1');
  head[12] = ((parts.version ?? 2) << 4) | (parts.command ?? 1);
  head[13] = parts.family ?? (octets.length === 4 ? 0x11 : 0x21);
  head.writeUInt16BE(parts.declaredLength ?? body.length, 14);
  return Buffer.concat([head, body]);
}

import { join, resolve } from 'node:path';
import { parseListen, reachable } from '../../app/config/addresses.ts';
import { UsageError } from '../../base/errors.ts';
import { createCertificateFinder } from '../../base/net/find-certificate.ts';
import { caddyEdge } from '../../edge/export/caddy.ts';
import {
  type EdgeExportSettings,
  type EdgeFormatName,
  type EdgeFormatWriter,
  edgeFormats,
  exportEdge,
  type ListenAddress,
} from '../../edge/export/export-edge.ts';
import { haproxyEdge } from '../../edge/export/haproxy.ts';
import { nginxEdge } from '../../edge/export/nginx.ts';
import { defineCommand, defineGroup } from '../command/command.ts';
import { parseWord } from '../command/span.ts';
import { defaultCaFile, exportOptions, writeExport } from '../command/write-export.ts';

const defaultListen = '0.0.0.0:80';

const writers = { nginx: nginxEdge, haproxy: haproxyEdge, caddy: caddyEdge } as const satisfies Record<
  EdgeFormatName,
  EdgeFormatWriter
>;

function addressOf(option: string, text: string): ListenAddress {
  const read = parseListen(text);
  if (read && read.port > 0) return read;
  throw new UsageError(`--${option}: got "${text}", want an IP address with a port, such as 127.0.0.1:8080`);
}

const exportCommand = defineCommand({
  summary: 'Write the zones as the configuration of a proxy that asks Postern only about failures',
  details:
    'Reads the zones of the configuration. The proxy takes requests to their origins itself, and has Postern answer those that\n' +
    'fail, with the error, the form and the rules of the edge. A zone that the format cannot hold is left out; that and what else\n' +
    'differs is told on standard error and in comments of the output. See docs/edge-behind-a-proxy.md.',
  options: {
    ...exportOptions(edgeFormats),
    listen: { value: 'HOST:PORT', summary: `where the proxy listens for HTTP (default: ${defaultListen})` },
    'tls-listen': { value: 'HOST:PORT', summary: 'where it listens for HTTPS (default: nowhere)' },
    postern: { value: 'HOST:PORT', summary: "where it finds Postern (default: the configuration's http.listen)" },
    'ca-file': { value: 'FILE', summary: `authorities of origins with https, PEM (default: ${defaultCaFile})` },
    strict: { summary: 'write nothing and exit with 1 where a zone would be left out' },
  },
  examples: [
    'postern edge export --format nginx --tls-listen 0.0.0.0:443 --output /etc/nginx/conf.d/postern.conf',
    'postern edge export --format caddy --postern 192.0.2.5:8080',
  ],
  exitCodes: { 1: 'the output failed, or --strict and a zone cannot be written' },
  run: ({ options, readConfig }, io) => {
    const writer = writers[parseWord(options.format, '--format', edgeFormats)];
    const given = (option: 'listen' | 'tls-listen' | 'postern'): ListenAddress | undefined => {
      const text = options[option];
      return text === undefined ? undefined : addressOf(option, text);
    };
    const config = readConfig();
    const findCertificate = createCertificateFinder(join(config.certsDir, 'tls'));
    const settings: EdgeExportSettings = {
      listen: given('listen') ?? addressOf('listen', defaultListen),
      tlsListen: given('tls-listen'),
      postern: given('postern') ?? reachable(config.http.listen),
      certificateFolder: (name) => findCertificate(name)?.folder,
      caFile: resolve(io.cwd, options['ca-file'] ?? defaultCaFile),
      edge: config.edge,
    };
    const { text, gaps } = exportEdge(writer, config.zones, settings);
    const told = gaps.map(({ zone, ...gap }) => (zone === undefined ? gap : { ...gap, subject: `zone ${zone}` }));
    return writeExport(io, options, { text, gaps: told });
  },
});

/** `postern edge` exports the zones for operators whose own proxy serves them, and has Postern answer what fails (D66). */
export const command = defineGroup({ export: exportCommand });

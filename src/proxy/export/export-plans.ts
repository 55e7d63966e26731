// The formats that plans are written in.

import { exportEnvoy } from './envoy.ts';
import type { ExportFormat, exporter } from './exported.ts';
import { exportHaproxy } from './haproxy.ts';
import { exportNginx } from './nginx.ts';

/**
 * Write the configuration of another proxy. An application that the format cannot carry as Postern does (another header, no
 * header, no UDP) is left out; what only differs in operation is written and noted. Both stand in the text as comments and
 * in `gaps`, never are they dropped in silence.
 */
export const exporters: Readonly<Record<ExportFormat, ReturnType<typeof exporter>>> = {
  haproxy: exportHaproxy,
  nginx: exportNginx,
  envoy: exportEnvoy,
};

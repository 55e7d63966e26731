// The formats that plans are written in.

import { exportEnvoy } from './envoy.ts';
import type { ExportFormat, exporter } from './exported.ts';
import { exportHaproxy } from './haproxy.ts';
import { exportNginx } from './nginx.ts';

/** Write the configuration of another proxy. What the format cannot carry is left out, what differs noted: in comments and in `gaps`. */
export const exporters: Readonly<Record<ExportFormat, ReturnType<typeof exporter>>> = {
  haproxy: exportHaproxy,
  nginx: exportNginx,
  envoy: exportEnvoy,
};

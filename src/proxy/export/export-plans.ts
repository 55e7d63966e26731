// Writes plans in one of the formats.

import type { ForwardingPlan } from '../application/application.ts';
import { exportEnvoy } from './envoy.ts';
import type { Exported, ExportFormat, ExportSettings } from './exported.ts';
import { exportHaproxy } from './haproxy.ts';
import { exportNginx } from './nginx.ts';

const exporters = {
  haproxy: exportHaproxy,
  nginx: exportNginx,
  envoy: exportEnvoy,
} as const satisfies Record<ExportFormat, (plans: readonly ForwardingPlan[], settings: ExportSettings) => Exported>;

/**
 * Writes the configuration of another proxy. An application that the format cannot carry as Postern does (another
 * header, no header, no UDP) is left out; what only differs in operation is written and noted. Both stand in the text
 * as comments and in `gaps`, never are they dropped in silence.
 */
export function exportPlans(
  format: ExportFormat,
  plans: readonly ForwardingPlan[],
  settings: ExportSettings,
): Exported {
  return exporters[format](plans, settings);
}

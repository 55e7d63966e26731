// The process that reads another configuration and judges messages by it.

import { systemClock } from '../../base/clock.ts';
import { judgeKeptBy } from '../../pipeline/report/rehearse.ts';
import { loadConfig } from '../config/config.ts';
import { answerAboutConfig } from '../config/config-process.ts';
import { judgedBy } from './build-parts.ts';
import { checkApplications } from './load-settings.ts';

answerAboutConfig(async (place) => {
  const other = loadConfig(place);
  await checkApplications(other, systemClock);
  return judgeKeptBy(judgedBy(other));
});

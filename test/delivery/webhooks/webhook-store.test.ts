// The webhooks under their contract.

import { webhooksContract } from '../../contract/webhooks.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) webhooksContract(engine);

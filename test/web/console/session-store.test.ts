// The store of the console's sessions under its contract.

import { sessionsContract } from '../../contract/sessions.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) sessionsContract(engine);

// The suppression list under its contract.

import { suppressionsContract } from '../../contract/suppressions.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) suppressionsContract(engine);

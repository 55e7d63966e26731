// The limits of accounts under their contract.

import { limitsContract } from '../contract/limits.ts';
import { engines } from '../support/engines.ts';

for (const engine of engines) limitsContract(engine);

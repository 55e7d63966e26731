// The token store under its contract.

import { tokensContract } from '../contract/tokens.ts';
import { engines } from '../support/engines.ts';

for (const engine of engines) tokensContract(engine);

// The store of custom errors under its contract.

import { customErrorsContract } from '../../contract/custom-errors.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) customErrorsContract(engine);

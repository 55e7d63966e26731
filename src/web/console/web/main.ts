// The entry of the console in the browser.

import { h, render } from 'preact';
import { Console } from './console.ts';
import { followClock } from './state/clock.ts';
import { followPlace } from './state/place.ts';

followClock();
followPlace();
const root = document.getElementById('console');
if (root) render(h(Console, null), root);

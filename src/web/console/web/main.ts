// The entry of the console in the browser.

import { h, render } from 'preact';
import { Console } from './console.ts';
import { followClock } from './state/clock.ts';
import { followLocation } from './state/session.ts';

followClock();
followLocation();
const root = document.getElementById('console');
if (root) render(h(Console, null), root);

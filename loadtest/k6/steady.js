// Steady: the same number of requests each second, on kept connections. The run to compare versions
// and settings with.
//
//   k6 run -e TARGET=... -e RATE=500 -e DURATION=5m -e P99_MS=20 loadtest/k6/steady.js
//
// Asserts: no failure; p99 below P99_MS (50); k6 itself kept up with the rate.

import { arrivals, atRate, options as common } from './lib/options.js';
import { ask } from './lib/request.js';
import { seconds, settings, url } from './lib/settings.js';

const RATE = settings.rate(200);
const DURATION = seconds(settings.duration('1m'));

export const options = common(
  { steady: arrivals(RATE, DURATION) },
  atRate(RATE, DURATION, settings.p99(50)),
  { discardResponseBodies: true },
);

export default function steady() {
  ask(url(settings.host), { status: settings.status });
}

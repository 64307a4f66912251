// Spike: calm, then ten times the load from one second to the next, then calm again.
//
//   k6 run -e TARGET=... -e RATE=100 -e MAX_RATE=1000 -e DURATION=3m loadtest/k6/spike.js
//
// Asserts: no failure, the spike included; p99 below P99_MS (50) in the calm after the spike, which
// is where a queue or a pool that does not recover shows. Latencies in the spike are printed and
// not asserted.

import { arrivals, below, options as common } from './lib/options.js';
import { ask } from './lib/request.js';
import { seconds, settings, url } from './lib/settings.js';

const RATE = settings.rate(100);
const MAX_RATE = settings.maxRate(RATE * 10);
const THIRD = Math.max(1, Math.floor(seconds(settings.duration('1m')) / 3));
// What waits when the spike ends is no measure of the calm after it.
const SETTLE = Math.min(5, THIRD);
const P99 = settings.p99(50);

export const options = common(
  {
    before: arrivals(RATE, THIRD),
    spike: arrivals(MAX_RATE, THIRD, { startTime: `${THIRD}s` }),
    after: arrivals(RATE, THIRD, { startTime: `${2 * THIRD + SETTLE}s` }),
  },
  {
    http_req_failed: ['rate==0'],
    'http_req_duration{scenario:before}': below(0),
    'http_req_duration{scenario:spike}': below(0),
    'http_req_duration{scenario:after}': below(P99),
  },
  { discardResponseBodies: true },
);

export default function spike() {
  ask(url(settings.host), { status: settings.status });
}

// Soak: moderate load for hours, on kept and on new connections. For what grows: memory, file
// descriptors, latencies.
//
//   k6 run -e TARGET=... -e RATE=200 -e DURATION=8h loadtest/k6/soak.js
//
// Asserts: no failure; p99 below P99_MS (50) in the last tenth of the run, which is printed beside
// that of the first. Watch the gateway's process_resident_memory_bytes and process_open_fds
// meanwhile; run locally, the runner prints its memory before and after.

import exec from 'k6/execution';

import { arrivals, below, options as common } from './lib/options.js';
import { ask } from './lib/request.js';
import { seconds, settings, url } from './lib/settings.js';

const RATE = settings.rate(100);
const DURATION = seconds(settings.duration('1h'));
// One request in so many comes on a connection of its own.
const NEW = 10;

export const options = common(
  {
    kept: arrivals(RATE, DURATION),
    fresh: arrivals(Math.ceil(RATE / NEW), DURATION),
  },
  {
    http_req_failed: ['rate==0'],
    'http_req_duration{part:first}': below(0),
    'http_req_duration{part:last}': below(settings.p99(50)),
  },
  { discardResponseBodies: true },
);

export default function soak() {
  const { progress } = exec.scenario;
  const part = progress < 0.1 ? 'first' : progress >= 0.9 ? 'last' : 'middle';
  const headers = exec.scenario.name === 'fresh' ? { Connection: 'close' } : {};
  ask(url(settings.host), { status: settings.status, headers, tags: { part } });
}

// Ramp: more and more requests each second, in steps, until the gateway, k6 or the
// backend is saturated.
//
//   k6 run -e TARGET=... -e MAX_RATE=20000 -e STEPS=10 -e DURATION=5m loadtest/k6/ramp.js
//
// Asserts: no failure at any rate: what is too much may wait, but it is answered. Prints a line for
// each step, and the highest rate that was served with p99 below P99_MS (100). Look at the CPU of
// the machine that runs k6: when that is busy, the figure is k6's.

import { arrivals, options as common } from './lib/options.js';
import { ask } from './lib/request.js';
import { seconds, settings, url } from './lib/settings.js';

// Seconds after each step for what is still under way, so that no step pays for the one before.
const BREATH = 1;
const STEPS = Math.max(1, settings.steps(8));
const MAX_RATE = settings.maxRate(2000);
const EACH = Math.max(1, Math.floor(seconds(settings.duration('2m')) / STEPS) - BREATH);
const P99 = settings.p99(100) || Infinity;
// The share of requests that k6 may drop before a rate counts as not reached.
const DROPPED = 0.01;

const rates = Array.from({ length: STEPS }, (_, index) => Math.ceil((MAX_RATE * (index + 1)) / STEPS));
const nameOf = (rate) => `rate_${rate}`;

const scenarios = {};
const thresholds = { http_req_failed: ['rate==0'] };
rates.forEach((rate, index) => {
  // A step's users are those of the step before: k6 shares them between scenarios that do not
  // overlap. There are as many as are busy at 100 ms a request; more would only wait longer.
  scenarios[nameOf(rate)] = arrivals(rate, EACH, {
    startTime: `${(EACH + BREATH) * index}s`,
    gracefulStop: `${BREATH}s`,
    maxVUs: settings.vus(Math.min(500, Math.max(50, Math.ceil(rate / 10)))),
  });
  // Thresholds that always hold: k6 keeps figures by scenario only for thresholds.
  thresholds[`http_req_duration{scenario:${nameOf(rate)}}`] = ['p(99)>=0'];
  thresholds[`dropped_iterations{scenario:${nameOf(rate)}}`] = ['count>=0'];
  thresholds[`http_reqs{scenario:${nameOf(rate)}}`] = ['count>=0'];
});

export const options = common(scenarios, thresholds, { discardResponseBodies: true });

export default function ramp() {
  ask(url(settings.host), { status: settings.status });
}

export function handleSummary(data) {
  const figure = (metric, rate, value) => data.metrics[`${metric}{scenario:${nameOf(rate)}}`].values[value];
  const lines = ['', 'asked/s  served/s   dropped   p50 ms   p99 ms   max ms'];
  let best = 0;
  for (const rate of rates) {
    const served = figure('http_reqs', rate, 'count') / EACH;
    const dropped = figure('dropped_iterations', rate, 'count') / (rate * EACH);
    const [median, p99, max] = ['med', 'p(99)', 'max'].map((value) => figure('http_req_duration', rate, value));
    if (dropped <= DROPPED && p99 < P99) best = Math.max(best, rate);
    const cells = [
      String(rate).padStart(7),
      served.toFixed(0).padStart(10),
      `${(dropped * 100).toFixed(1)} %`.padStart(10),
      ...[median, p99, max].map((value) => value.toFixed(1).padStart(9)),
    ];
    lines.push(cells.join(''));
  }
  const failed = data.metrics.http_req_failed.values.passes;
  lines.push(
    best > 0 ? `served well up to ${best} requests/s` : 'not even the first step was served well',
    best === MAX_RATE ? 'no saturation: raise MAX_RATE' : '',
    `failed requests: ${failed}`,
    '',
  );
  return { stdout: lines.filter((line, index) => line !== '' || index === 0).join('\n') + '\n' };
}

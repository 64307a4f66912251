// k6's options, as every script has them: no request may fail, and latencies have a limit.

import { names, settings } from './settings.js';

// What k6 prints of every duration.
const TREND = ['min', 'med', 'avg', 'p(99)', 'p(99.9)', 'max'];

// Options of a script from its scenarios and thresholds. Two thresholds come with every script:
// each check holds, and at least one request was sent (k6 passes a run without requests).
export function options(scenarios, thresholds, more = {}) {
  return {
    scenarios,
    thresholds: { checks: ['rate==1'], http_reqs: ['count>0'], ...thresholds },
    hosts: names(),
    summaryTrendStats: TREND,
    // Host names in system tags would be one series for each URL.
    systemTags: ['status', 'method', 'name', 'check', 'error_code', 'scenario', 'expected_response'],
    userAgent: 'sluice-k6',
    ...more,
  };
}

// The limit of a latency: none when it is 0.
export function below(milliseconds) {
  return milliseconds > 0 ? [`p(99)<${milliseconds}`] : ['p(99)>=0'];
}

// Thresholds of requests that arrive at a fixed rate. k6 drops what it cannot start in time; when
// that is more than one in a hundred, the latencies are those of another load than the requested
// one.
export function atRate(rate, duration, p99) {
  const thresholds = { http_req_failed: ['rate==0'], http_req_duration: below(p99) };
  // Without a limit for latencies nothing depends on how fast the machine is.
  if (p99 > 0) thresholds.dropped_iterations = [`count<=${Math.ceil((rate * duration) / 100)}`];
  return thresholds;
}

// A scenario of requests that arrive at a fixed rate, whatever the gateway does. k6 starts with as
// many users as are busy at 50 ms a request and takes on more up to a second a request.
export function arrivals(rate, duration, more = {}) {
  return {
    executor: 'constant-arrival-rate',
    rate,
    timeUnit: '1s',
    duration: `${duration}s`,
    preAllocatedVUs: settings.vus(Math.max(10, Math.ceil(rate / 20))),
    maxVUs: Math.max(settings.vus(10), 100, rate),
    ...more,
  };
}

// Smoke: checks that the gateway serves each kind of request. A few seconds, one user.
//
//   k6 run -e TARGET=http://203.0.113.10 -e HOST=shop.example loadtest/k6/smoke.js
//
// Asserts: every answer as it must be. No latencies.

import { options as common } from './lib/options.js';
import { ask, verify } from './lib/request.js';
import { UNKNOWN_HOST, canAskUnknownHost, hasTls, settings, tlsUrl, url } from './lib/settings.js';

const ROUNDS = 10;

export const options = common(
  { smoke: { executor: 'per-vu-iterations', vus: 1, iterations: ROUNDS, maxDuration: '1m' } },
  { http_req_failed: ['rate==0'] },
);

export default function smoke() {
  const { host, secureHost, backend, status } = settings;
  ask(url(host), { status });
  const again = ask(url(host), { status });
  verify(again, { 'the connection is kept': () => again.timings.connecting === 0 });
  ask(url(host), { status, method: 'HEAD' });
  if (hasTls) {
    const secured = ask(tlsUrl(host), { status });
    verify(secured, { 'TLS 1.2 or newer': () => ['tls1.2', 'tls1.3'].includes(secured.tls_version) });
  }
  if (secureHost !== '') {
    const moved = ask(url(secureHost, '/a?b=c'), { status: 308 });
    verify(moved, { 'leads to https': () => moved.headers.Location === `https://${secureHost}/a?b=c` });
  }
  if (canAskUnknownHost) ask(url(UNKNOWN_HOST), { status: 404 });
  if (backend === 'echo') {
    const posted = ask(url(host), { body: 'x'.repeat(1000) });
    verify(posted, { 'the body arrives whole': () => posted.json('body_length') === 1000 });
    const large = ask(url(host, '/?bytes=100000'));
    verify(large, { 'the answer arrives whole': () => large.body.length === 100000 });
    ask(url(host, '/?status=503'), { status: 503 });
  }
}

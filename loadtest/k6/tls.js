// TLS: every request on a connection of its own, with a whole handshake (k6 never resumes a
// session).
//
//   k6 run -e TARGET=https://203.0.113.10 -e HOST=shop.example -e RATE=100 loadtest/k6/tls.js
//
// The certificate must be one that this machine trusts and be valid for HOST (SSL_CERT_FILE adds an
// authority; --insecure-skip-tls-verify trusts any certificate). Asserts: no failure; each request
// had a handshake; the handshake's p99 is below P99_MS (100).

import { arrivals, atRate, below, options as common } from './lib/options.js';
import { ask, verify } from './lib/request.js';
import { seconds, settings, tlsUrl } from './lib/settings.js';

const RATE = settings.rate(50);
const DURATION = seconds(settings.duration('1m'));
const P99 = settings.p99(100);

export const options = common(
  { handshakes: arrivals(RATE, DURATION) },
  { ...atRate(RATE, DURATION, P99), http_req_tls_handshaking: below(P99) },
  { discardResponseBodies: true, noConnectionReuse: true },
);

export default function tls() {
  const answer = ask(tlsUrl(settings.host), { status: settings.status });
  verify(answer, { 'it had a handshake of its own': () => answer.timings.tls_handshaking > 0 });
}

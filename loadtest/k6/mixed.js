// Mixed: requests as in production. Several hosts in the clear and over TLS, small and large
// answers and bodies, sessions, redirects to https, and errors of the backend, which must arrive
// unchanged.
//
//   k6 run -e TARGET=http://... -e TARGET_TLS=https://... -e HOSTS=a.example,b.example \
//     -e RATE=300 loadtest/k6/mixed.js
//
// Asserts: every answer is the one that was asked for, with its length; p99 below P99_MS (200) over
// everything, large bodies included, and printed by operation. With BACKEND=any only requests that
// every backend answers are sent.

import exec from 'k6/execution';

import { arrivals, atRate, below, options as common } from './lib/options.js';
import { ask, verify } from './lib/request.js';
import { hasTls, seconds, settings, tlsUrl, url } from './lib/settings.js';

const RATE = settings.rate(150);
const DURATION = seconds(settings.duration('1m'));
const bodies = { 1024: 'x'.repeat(1024), 65536: 'x'.repeat(65536) };

const read = (bytes) => (address, tags) => {
  const answer = ask(address(`/?bytes=${bytes}`), { tags });
  verify(answer, { 'the answer arrives whole': () => answer.body.length === bytes });
};
const write = (bytes) => (address, tags) => {
  const answer = ask(address('/'), { body: bodies[bytes], tags });
  verify(answer, { 'the body arrives whole': () => answer.json('body_length') === bytes });
};
const fail = (status) => (address, tags) => ask(address(`/?status=${status}`), { status, tags });
const plain = (address, tags) => ask(address(settings.path), { status: settings.status, tags });
const fresh = (address, tags) =>
  ask(address(settings.path), { status: settings.status, headers: { Connection: 'close' }, tags });
const session = (_, tags) => {
  // Two requests of one session; what keeps it on its Pod is the business of sticky.js.
  ask(url(settings.stickyHost), { status: settings.status, tags });
  ask(url(settings.stickyHost), { status: settings.status, tags });
};
const redirect = (_, tags) => {
  const answer = ask(url(settings.secureHost, '/a'), { status: 308, tags });
  verify(answer, { 'leads to https': () => answer.headers.Location === `https://${settings.secureHost}/a` });
};

// Shares of the requests; they need not add up to anything.
const operations = [
  { name: 'get', share: 40, run: plain },
  { name: 'get_new_connection', share: 5, run: fresh },
  { name: 'session', share: 10, run: session },
];
if (settings.backend === 'echo') {
  operations.push(
    { name: 'get_10k', share: 20, run: read(10240) },
    { name: 'get_1m', share: 1, run: read(1048576) },
    { name: 'post_1k', share: 12, run: write(1024) },
    { name: 'post_64k', share: 3, run: write(65536) },
    { name: 'backend_404', share: 4, run: fail(404) },
    { name: 'backend_500', share: 1, run: fail(500) },
    { name: 'backend_503', share: 1, run: fail(503) },
  );
}
if (settings.secureHost !== '') operations.push({ name: 'redirect', share: 3, run: redirect });
const total = operations.reduce((sum, { share }) => sum + share, 0);

const thresholds = atRate(RATE, DURATION, settings.p99(200));
for (const { name } of operations) thresholds[`http_req_duration{operation:${name}}`] = below(0);

export const options = common({ mixed: arrivals(RATE, DURATION) }, thresholds);

export default function mixed() {
  // Drawn without chance, so that two runs send the same: a step that shares no factor with the
  // total visits every operation as often as its share says, and the round moves them over hosts
  // and schemes.
  const turn = exec.scenario.iterationInTest;
  const other = turn + Math.floor(turn / total);
  const host = settings.hosts[other % settings.hosts.length];
  const secured = hasTls && Math.floor(other / settings.hosts.length) % 2 === 1;
  const address = (path) => (secured ? tlsUrl(host, path) : url(host, path));
  let place = (turn * 61) % total;
  const operation = operations.find(({ share }) => (place -= share) < 0);
  operation.run(address, { operation: operation.name });
}

// Sticky: sessions stay on their Pod while endpoints come and go. Run it while something changes
// them: the runner does so locally; elsewhere scale the Deployment up and down meanwhile.
//
//   k6 run -e TARGET=... -e STICKY_HOST=cart.example -e POD=header:x-pod -e VUS=100 \
//     loadtest/k6/sticky.js
//
// The host needs `affinity: cookie` and `affinity-mode: persistent` (with `balanced`, sessions are
// meant to move when endpoints come). Each user is one session for the whole run. Asserts: no
// failure; no session leaves its Pod, unless TRANSIENT names the Pod as one that may go away.

import { sleep } from 'k6';
import { Counter } from 'k6/metrics';

import { below, options as common } from './lib/options.js';
import { podOf } from './lib/pod.js';
import { ask, verify } from './lib/request.js';
import { seconds, settings, url } from './lib/settings.js';

const DURATION = seconds(settings.duration('1m'));
const PAUSE = settings.pause(100) / 1000;
const transient = settings.transient === '' ? null : new RegExp(settings.transient);

const kept = new Counter('sessions_kept'); // requests that found their session's Pod
const moved = new Counter('sessions_moved'); // sessions whose Pod went away, and that went on with another

export const options = common(
  { sessions: { executor: 'constant-vus', vus: settings.vus(50), duration: `${DURATION}s`, gracefulStop: '5s' } },
  {
    http_req_failed: ['rate==0'],
    http_req_duration: below(settings.p99(50)),
    sessions_kept: ['count>0'],
    sessions_moved: ['count>=0'],
  },
  // A user's cookies are its session: they stay from one iteration to the next.
  { noCookiesReset: true },
);

// The Pod of this user's session, once there is one.
let home = '';

export default function sticky() {
  const answer = ask(url(settings.stickyHost), { status: settings.status });
  if (answer.status === settings.status) {
    const pod = podOf(answer);
    const mayMove = home === '' || (transient !== null && transient.test(home));
    verify(answer, {
      'the answer says which Pod it is of': () => pod !== '',
      'the session stays on its Pod': () => pod === home || mayMove,
    });
    if (pod === home) kept.add(1);
    else if (home !== '' && mayMove) moved.add(1);
    home = pod;
  }
  sleep(PAUSE);
}

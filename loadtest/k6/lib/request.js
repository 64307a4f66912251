// One request, held against what it must answer.

import { check } from 'k6';
import http from 'k6/http';

// Failures that are printed, for each user that k6 simulates; the thresholds count all of them.
const EXAMPLES = 3;
let printed = 0;

// Sends a request and checks its status. `more` is k6's parameters; `body` makes it a POST.
export function ask(address, { status = 200, body = null, method = body === null ? 'GET' : 'POST', ...more } = {}) {
  const name = address.replace(/\?.*$/, '');
  const answer = http.request(method, address, body, {
    redirects: 0,
    // An answer of the backend that is an error is no failure of the gateway when it was asked for.
    responseCallback: http.expectedStatuses(status),
    ...more,
    tags: { name, ...more.tags },
  });
  verify(answer, { [`status ${status}`]: () => answer.status === status });
  return answer;
}

// k6's check, which also prints the first failures, because a count alone does not show a cause.
export function verify(answer, checks) {
  const good = check(answer, checks);
  if (!good && printed < EXAMPLES) {
    printed += 1;
    const broken = Object.keys(checks).filter((name) => !checks[name](answer));
    const body = String(answer.body || '').slice(0, 120);
    const { method = '', url = '' } = answer.request || {};
    console.error(`${method} ${url}: not so: ${broken.join(', ')}; status ${answer.status} ${answer.error || ''} ${body}`);
  }
  return good;
}

// Settings of every script, all by environment variables (`k6 run -e NAME=VALUE`). docs/loadtest.md
// has the table.
//
// Nothing else reads __ENV, so that this file is the list of what can be set.

// Where the gateway is, by address: scripts connect here whatever the host is called.
const TARGET = text('TARGET', 'http://127.0.0.1:8080');
const TARGET_TLS = text('TARGET_TLS', TARGET.startsWith('https:') ? TARGET : '');

// Hosts of the gateway that send to the backend under test.
const HOST = text('HOST', place(TARGET).name);
const STICKY_HOST = text('STICKY_HOST', HOST); // has session affinity by cookie
const SECURE_HOST = text('SECURE_HOST', ''); // redirects http to https; not tested when empty
const HOSTS = list('HOSTS', HOST); // `mixed` spreads its requests over these

// `echo`: the backend does what a query asks (?status=, ?bytes=, ?delay_ms=) and says who it is;
// `any`: it only answers.
const BACKEND = oneOf('BACKEND', ['echo', 'any']);

export const settings = {
  backend: BACKEND,
  host: HOST,
  hosts: HOSTS,
  stickyHost: STICKY_HOST,
  secureHost: SECURE_HOST,
  path: text('PATHNAME', '/'),
  // What the backend answers to PATHNAME when all is well.
  status: number('STATUS', 200),
  // Where an answer says which Pod it is of: `json:FIELD`, `header:NAME` or `body`.
  pod: text('POD', 'json:pod'),
  // A regular expression for Pods that may go away during `sticky`; their sessions may move. None
  // by default.
  transient: text('TRANSIENT', ''),
  // How long a run is, and the load. Each script has defaults of its own.
  duration: (otherwise) => text('DURATION', otherwise),
  rate: (otherwise) => number('RATE', otherwise),
  maxRate: (otherwise) => number('MAX_RATE', otherwise),
  steps: (otherwise) => number('STEPS', otherwise),
  vus: (otherwise) => number('VUS', otherwise),
  // Milliseconds between two requests of one session, or two messages of one WebSocket.
  pause: (otherwise) => number('PAUSE_MS', otherwise),
  // The 99th percentile in milliseconds that a run may not reach; 0 switches the check off.
  p99: (otherwise) => number('P99_MS', otherwise),
};

// The address of a host in the clear, or wherever TARGET leads when that is TLS only.
export function url(host, path = settings.path) {
  return at(TARGET, host, path);
}

// Whether there is TLS to test, and the address of a host over it.
export const hasTls = TARGET_TLS !== '';
export function tlsUrl(host, path = settings.path) {
  if (!hasTls) throw new Error('this script needs TLS: set TARGET_TLS=https://ADDRESS[:PORT]');
  return at(TARGET_TLS, host, path);
}

// The address of a host for WebSockets.
export function socketUrl(host, path = settings.path) {
  return url(host, path).replace(/^http/, 'ws');
}

// k6's `hosts`: every name leads to the target's address and port. A target that is a DNS name is
// looked up by k6, and then only that name can be asked for.
export function names() {
  const all = {};
  for (const target of [TARGET, TARGET_TLS].filter((target) => target !== '')) {
    const { scheme, name, port, isAddress } = place(target);
    for (const host of new Set([HOST, STICKY_HOST, SECURE_HOST, UNKNOWN_HOST, ...HOSTS])) {
      if (host === '' || host === name) continue;
      if (isAddress) {
        all[`${host}:${scheme === 'https' ? 443 : 80}`] = `${name}:${port}`;
      } else if (host !== UNKNOWN_HOST) {
        throw new Error(`${host} cannot be sent to ${name}: set TARGET to the address behind that name`);
      }
    }
  }
  return all;
}

// A host that nobody serves. Only to be asked for where the target is an address.
export const UNKNOWN_HOST = 'nobody.invalid';
export const canAskUnknownHost = place(TARGET).isAddress;

// `90`, `90s`, `1m30s` and `1h` in seconds.
export function seconds(duration) {
  const form = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?$/.exec(duration);
  if (form === null || duration === '') throw new Error(`${duration} is no duration: write 90s, 10m or 1h30m`);
  const [hours, minutes, rest] = form.slice(1).map((part) => Number(part || 0));
  return hours * 3600 + minutes * 60 + rest;
}

// A host that is another name than the target's is led there by `names`, port included.
function at(target, host, path) {
  const { scheme, name, port } = place(target);
  const standard = port === (scheme === 'https' ? '443' : '80');
  return `${scheme}://${host}${host === name && !standard ? `:${port}` : ''}${path}`;
}

function place(target) {
  const form = /^(https?):\/\/(\[[0-9a-fA-F:.]+\]|[^/:[\]]+)(?::(\d+))?\/?$/.exec(target);
  if (form === null) throw new Error(`${target} is no target: write http://ADDRESS[:PORT] or https://ADDRESS[:PORT]`);
  const [scheme, name, port] = form.slice(1);
  const isAddress = name.startsWith('[') || /^\d+\.\d+\.\d+\.\d+$/.test(name);
  return { scheme, name, port: port || (scheme === 'https' ? '443' : '80'), isAddress };
}

function text(name, otherwise) {
  const value = __ENV[name];
  return value === undefined ? otherwise : value;
}

function number(name, otherwise) {
  const value = Number(text(name, otherwise));
  if (!Number.isFinite(value) || value < 0) throw new Error(`${name}=${text(name, otherwise)} is no number`);
  return value;
}

function list(name, otherwise) {
  return text(name, otherwise).split(',').map((item) => item.trim()).filter((item) => item !== '');
}

function oneOf(name, values) {
  const value = text(name, values[0]);
  if (!values.includes(value)) throw new Error(`${name}=${value}: write ${values.join(' or ')}`);
  return value;
}

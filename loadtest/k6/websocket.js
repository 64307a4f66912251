// WebSocket: sockets that stay open for the whole run, each with one message under way at a time.
//
//   k6 run -e TARGET=... -e VUS=500 -e DURATION=10m -e PAUSE_MS=1000 loadtest/k6/websocket.js
//
// Needs a backend that sends every message back. Asserts: every socket opens, no message is lost or
// changed, no socket is closed by the other side, and the round trip's p99 is below P99_MS (50).
// Change endpoints meanwhile: open sockets stay with their Pod.

import { check } from 'k6';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { WebSocket } from 'k6/websockets';

import { below, options as common } from './lib/options.js';
import { seconds, settings, socketUrl } from './lib/settings.js';

const DURATION = seconds(settings.duration('1m')) * 1000;
const PAUSE = settings.pause(50);

const messages = new Counter('messages_returned');
const roundTrip = new Trend('message_round_trip', true);

export const options = common(
  {
    sockets: {
      executor: 'per-vu-iterations',
      vus: settings.vus(50),
      iterations: 1,
      maxDuration: `${DURATION / 1000 + 30}s`,
    },
  },
  {
    messages_returned: ['count>0'],
    message_round_trip: below(settings.p99(50)),
    // There are no plain requests here.
    http_reqs: ['count>=0'],
  },
);

export default function websocket() {
  const socket = new WebSocket(socketUrl(settings.host), null, { tags: { name: 'websocket' } });
  const end = Date.now() + DURATION;
  let message = '';
  let count = 0;
  let sent = 0;
  let opened = false;
  let finished = false;

  const next = () => {
    count += 1;
    message = `message ${count} of socket ${exec.vu.idInTest}`;
    sent = Date.now();
    socket.send(message);
  };
  const finish = () => {
    finished = true;
    socket.close();
  };
  socket.onopen = () => {
    opened = true;
    next();
  };
  socket.onmessage = (event) => {
    check(event.data, { 'the message comes back as it was': (data) => data === message });
    messages.add(1);
    roundTrip.add(Date.now() - sent);
    setTimeout(Date.now() < end ? next : finish, PAUSE);
  };
  socket.onerror = (event) => console.error(`socket ${exec.vu.idInTest}: ${event.error}`);
  socket.onclose = () => {
    check(null, {
      'the socket opens': () => opened,
      'the socket stays open until we close it': () => finished,
    });
  };
}

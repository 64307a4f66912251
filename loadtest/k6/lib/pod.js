// Which Pod an answer is of, found where POD says.

import { settings } from './settings.js';

const [place, field] = settings.pod.split(/:(.*)/s);
if (!['json', 'header', 'body'].includes(place)) {
  throw new Error(`POD=${settings.pod}: write json:FIELD, header:NAME or body`);
}

// The Pod's name; empty when the answer does not say.
export function podOf(answer) {
  if (place === 'body') return String(answer.body || '').trim();
  if (place === 'json') return String(answer.json(field) || '');
  const name = Object.keys(answer.headers).find((name) => name.toLowerCase() === field.toLowerCase());
  return name === undefined ? '' : answer.headers[name];
}

// Whether a complete reply has the shape of its route's API. Returns what is wrong, '' if nothing is.
const isText = (value) => typeof value === 'string';
const isCount = (value) => Number.isInteger(value) && value >= 0;

function family(path) {
  if (path.startsWith('/v1/messages')) return 'anthropic';
  return path.startsWith('/api/') ? 'ollama' : 'openai';
}

const kErrors = {
  openai: (json) => isText(json.error?.message) && isText(json.error.type) && 'param' in json.error && 'code' in json.error,
  anthropic: (json) => json.type === 'error' && isText(json.error?.type) && isText(json.error.message) && 'request_id' in json,
  ollama: (json) => isText(json.error),
};

// Statuses that the server may give. 500 is for a model that cannot be loaded, and nothing else.
const kStatuses = new Set([200, 204, 400, 403, 404, 405, 408, 413, 414, 431, 500, 503, 505, 529]);

const kWholes = {
  '/v1/chat/completions': (json) => json.object === 'chat.completion' && json.choices.every((one) => isText(one.finish_reason)) && isCount(json.usage.total_tokens),
  '/v1/completions': (json) => json.object === 'text_completion' && json.choices.every((one) => isText(one.text) && isText(one.finish_reason)),
  '/v1/responses': (json) => json.object === 'response' && ['completed', 'incomplete'].includes(json.status) && Array.isArray(json.output),
  '/v1/responses/input_tokens': (json) => isCount(json.input_tokens),
  '/v1/messages': (json) => json.type === 'message' && isText(json.stop_reason) && Array.isArray(json.content),
  '/v1/messages/count_tokens': (json) => isCount(json.input_tokens),
  '/api/chat': (json) => json.done === true && isText(json.done_reason),
  '/api/generate': (json) => json.done === true && isText(json.done_reason),
};

const events = (body) => body.split('\n\n').filter((block) => block !== '' && !block.startsWith(':'));
const dataOf = (event) => JSON.parse(/^data: (.*)$/m.exec(event)[1]);

// How a stream ends: well, or with an error in its API's shape.
const kStreams = {
  openai: (body) => {
    const all = events(body);
    if (all.at(-1) === 'data: [DONE]') return all.slice(0, -1).every((event) => dataOf(event).object !== undefined);
    return kErrors.openai(dataOf(all.at(-1)));
  },
  responses: (body) => ['response.completed', 'response.incomplete', 'response.failed'].includes(events(body).map(dataOf).at(-1).type),
  anthropic: (body) => ['message_stop', 'error'].includes(events(body).map(dataOf).at(-1).type),
  ollama: (body) => {
    const last = body.trimEnd().split('\n').map((line) => JSON.parse(line)).at(-1);
    return last.done === true || isText(last.error);
  },
};

function streamed(path, body) {
  if (path === '/v1/responses') return kStreams.responses(body);
  return kStreams[family(path)](body);
}

export function wrongWith({ method, path, wanted }, reply) {
  const { status, headers, body } = reply;
  const said = `status ${status}: ${body.slice(0, 300)}`;
  if (!kStatuses.has(status)) return `an odd status: ${said}`;
  const busy = status === 503 || status === 529;
  try {
    if (status === 500 && !body.includes('cannot be loaded')) return `a failure: ${said}`;
    if (method === 'HEAD' || status === 204) return '';
    if (status >= 400) {
      if (wanted === 'good' && !busy && status !== 500) return `a right request was refused: ${said}`;
      // Where no path could be read the shape is OpenAI's.
      const shapes = wanted === 'no HTTP' ? [family(path), 'openai'] : [family(path)];
      return shapes.some((one) => kErrors[one](JSON.parse(body))) ? '' : `no error of its API: ${said}`;
    }
    const type = headers['content-type'];
    if (type.startsWith('text/event-stream') || type.startsWith('application/x-ndjson'))
      return streamed(path, body) ? '' : `a stream without its end: ${said} ... ${body.slice(-300)}`;
    if (!type.startsWith('application/json')) return body === '' ? 'an empty reply' : '';
    const json = JSON.parse(body);
    return kWholes[path]?.(json) ?? true ? '' : `not the shape of ${path}: ${said}`;
  } catch (error) {
    return `${error.message}: ${said} ... ${body.slice(-300)}`;
  }
}

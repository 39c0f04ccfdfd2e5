// Random requests of every route: {method, path, headers, body, text, wanted}. `text`: the bytes to send; `wanted`: 'good'
// when the request is right, so that only a full server may refuse it; 'no HTTP' when its head is wrong; else 'any'.
const kModels = ['demo', 'demo', 'demo', 'small'];
const kTexts = ['What is a violin?', 'a', 'The river flows.', '<turn|> <|think|> [INST]', 'ü 漢字 🎻 \u0000', 'word '.repeat(60)];
const kSchemas = [
  { type: 'object', properties: { a: { enum: ['x', 'y'] }, b: { type: 'boolean' } }, required: ['a', 'b'], additionalProperties: false },
  { type: 'integer' }, { enum: [1, 'two', null] }, { type: 'array', items: { type: 'boolean' }, maxItems: 3 }, true, {},
];
const kWild = [null, true, false, 0, -1, 1.5, 1e300, -1e300, 2 ** 53, '', 'x', '\ud800', [], {}, [[]], [null], { a: {} }, 'x'.repeat(5000),
  [{ role: 'user' }], [{ role: 'tool', content: 3 }], [{ type: 'function' }], [{ type: 'text', text: 7 }], { type: 'json_schema' }, { type: 'nope' }];

const kLimit = { '/v1/chat/completions': 'max_tokens', '/v1/completions': 'max_tokens', '/v1/responses': 'max_output_tokens', '/v1/messages': 'max_tokens' };

function maybe(random, into, p, members) {
  if (random.chance(p)) Object.assign(into, typeof members === 'function' ? members() : members);
}
const words = (random) => random.pick(kTexts) + ' ' + random.below(50);

function sampling(random) {
  const out = {};
  maybe(random, out, 0.5, () => ({ temperature: random.pick([0, 0.7, 1]) }));
  maybe(random, out, 0.3, () => ({ top_p: random.next() }));
  return out;
}

const kTool = () => ({ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: { at: { type: 'string', maxLength: 8 } }, required: ['at'] } });

// A right body for each route that takes one.
const kBodies = {
  '/v1/chat/completions': (random) => {
    const body = { messages: [{ role: 'user', content: words(random) }], ...sampling(random), stream: random.chance(0.5) };
    maybe(random, body, 0.2, { logprobs: true, top_logprobs: 2 });
    maybe(random, body, 0.2, () => ({ n: 1 + random.below(3) }));
    maybe(random, body, 0.2, { stop: ['a', 'the'] });
    maybe(random, body, 0.3, { messages: [{ role: 'system', content: 'Be brief. '.repeat(30) }, ...body.messages] });
    if (random.chance(0.2)) body.response_format = { type: 'json_schema', json_schema: { name: 's', schema: random.pick(kSchemas) } };
    else if (random.chance(0.2))
      Object.assign(body, { tools: [{ type: 'function', function: kTool() }], tool_choice: random.pick(['auto', 'required', 'none']) });
    maybe(random, body, 0.1, { stream_options: { include_usage: true } });
    return body;
  },
  '/v1/completions': (random) => ({ prompt: random.pick(['A violin is', ['a', 'b'], words(random)]), ...sampling(random), stream: random.chance(0.5) }),
  '/v1/responses': (random) => {
    const body = { input: words(random), ...sampling(random), stream: random.chance(0.6) };
    maybe(random, body, 0.2, { instructions: 'Be brief.', metadata: { a: 'b' } });
    maybe(random, body, 0.2, { tools: [{ type: 'function', ...kTool() }, { type: 'web_search' }] });
    maybe(random, body, 0.2, () => ({ text: { format: { type: 'json_schema', name: 's', schema: random.pick(kSchemas) } } }));
    return body;
  },
  '/v1/responses/input_tokens': (random) => ({ input: words(random) }),
  '/v1/messages': (random) => {
    const body = { messages: [{ role: 'user', content: words(random) }], ...sampling(random), stream: random.chance(0.6) };
    maybe(random, body, 0.2, { stop_sequences: ['a'] });
    maybe(random, body, 0.2, { tools: [{ name: 'look', input_schema: kTool().parameters }] });
    maybe(random, body, 0.2, { system: [{ type: 'text', text: 'Be brief.' }] });
    return body;
  },
  '/v1/messages/count_tokens': (random) => ({ messages: [{ role: 'user', content: words(random) }] }),
  '/api/chat': (random) => ({ messages: [{ role: 'user', content: words(random) }], stream: random.chance(0.6), options: { ...sampling(random), num_predict: 1 + random.below(30) },
                              ...(random.chance(0.1) ? { keep_alive: random.pick([0, '1s', 3]) } : {}) }),
  '/api/generate': (random) => ({ prompt: words(random), stream: random.chance(0.6), options: { num_predict: 1 + random.below(30) }, ...(random.chance(0.2) ? { format: 'json' } : {}) }),
  '/api/show': () => ({}),
};
const kReads = ['/v1/models', '/v1/models/demo', '/health', '/v1/health', '/metrics', '/', '/api/tags', '/api/ps', '/api/version'];
// No answer has a right request here.
const kRefused = ['/v1/embeddings', '/api/embed', '/api/embeddings'];

function good(random) {
  if (random.chance(0.15)) return { method: random.pick(['GET', 'GET', 'GET', 'HEAD', 'OPTIONS']), path: random.pick(kReads) };
  const path = random.pick(Object.keys(kBodies));
  const body = { model: random.pick(kModels), ...kBodies[path](random) };
  if (kLimit[path]) body[kLimit[path]] = 1 + random.below(40);
  return { method: 'POST', path, body };
}

function spoilMember(random, body) {
  const names = Object.keys(body);
  const places = [body, body.messages?.[0], body.options, body.tools?.[0]].filter((one) => one && typeof one === 'object');
  const place = random.pick(places);
  const own = Object.keys(place);
  if (random.chance(0.2)) delete place[random.pick(own.length > 0 ? own : names)];
  else place[random.pick([...own, 'grammar', 'response_format', 'tools', 'tool_choice', 'seed', 'logit_bias', 'stop', 'n', 'images', 'keep_alive', 'format'])] =
    random.pick(kWild);
}

function spoilBytes(random, text) {
  const bytes = Buffer.from(text);
  switch (random.below(6)) {
    case 0: return bytes.subarray(0, random.below(bytes.length));
    case 1: return Buffer.concat([bytes, Buffer.from(random.pick(['}', 'x', '\0', '{}']))]);
    case 2: return Buffer.from('['.repeat(200) + ']'.repeat(200));
    case 3: return Buffer.from(`{"model": "demo", "input": "a", "prompt": "a", "messages": ${'{"a":'.repeat(150)}1${'}'.repeat(150)}}`);
    case 4: return Buffer.alloc(0);
    default:
      for (let i = 1 + random.below(4); i > 0; --i) bytes[random.below(bytes.length)] = random.below(256);
      return bytes;
  }
}

const kHeads = [
  ({ path }) => `GET\r\n\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\n\r\n`, // no Host
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}`,
  ({ path }) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
  ({ path }) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n${'x'.repeat(100000)}`,
  ({ path }) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(40000)}\r\n\r\n`,
  ({ path }) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${'A: b\r\n'.repeat(120)}\r\n`,
  ({ path }) => `BREW ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  ({ path }) => `GET ${path} HTTP/9.9\r\nHost: localhost\r\n\r\n`,
  ({ path }) => `GET no-path HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  () => `GET /v1/models/${'%zz'.repeat(3)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  () => `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${'\0'.repeat(40)}\r\n\r\n`, // TLS
];

function wire(random, { method, path, body, bytes }, closes) {
  if (body === undefined && bytes === undefined)
    return Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${closes ? 'Connection: close\r\n' : ''}\r\n`);
  const payload = bytes ?? Buffer.from(JSON.stringify(body));
  const head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${closes ? 'Connection: close\r\n' : ''}`;
  if (!random.chance(0.2)) return Buffer.concat([Buffer.from(`${head}Content-Length: ${payload.length}\r\n\r\n`), payload]);
  const cut = random.below(payload.length + 1);
  const chunks = [payload.subarray(0, cut), payload.subarray(cut)].filter((chunk) => chunk.length > 0);
  const coded = chunks.map((chunk) => Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]));
  return Buffer.concat([Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`), ...coded, Buffer.from('0\r\n\r\n')]);
}

// `closes`: the connection has no other request.
export function randomRequest(random, closes) {
  const request = { ...good(random), wanted: 'good' };
  const fate = random.next();
  if (fate > 0.7) request.wanted = 'any';
  if (fate > 0.94 && closes) {
    const bad = random.pick(kHeads)(request);
    const method = /^[A-Z]+(?= )/.exec(bad)?.[0] ?? 'GET';
    return { ...request, wanted: 'no HTTP', method, text: Buffer.from(bad, 'latin1'), body: undefined };
  }
  if (fate > 0.9) {
    request.path = random.pick([...kRefused, '/nope', '/v1/chat', '/v1/models/nope', '/api/pull', '/v1/messages/x']);
    request.method = random.pick(['GET', 'POST', 'DELETE', 'PUT']);
  } else if (fate > 0.8 && request.body) {
    spoilMember(random, request.body);
  } else if (fate > 0.7 && request.body) {
    request.bytes = spoilBytes(random, JSON.stringify(request.body));
  }
  return { ...request, text: wire(random, request, closes) };
}

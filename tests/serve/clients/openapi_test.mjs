// Every body and event of the routes in OpenAI's shape, against OpenAI's own description of its API
// (openapi_schemas.json, made by reduce_openapi.py). Members that the description does not know fail, except those that
// kOurs lists. run.sh starts this.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import { eventsOf, kAsk, kSchema, startServer } from './served.mjs';

// Members beyond the description: thoughts as DeepSeek's API has them, and that no response is stored.
const kOurs = {
  ChatCompletionResponseMessage: { reasoning_content: { type: 'string' } },
  ChatCompletionStreamResponseDelta: { reasoning_content: { type: 'string' } },
  Response: { store: { const: false } },
};

const { $defs } = JSON.parse(readFileSync(new URL('openapi_schemas.json', import.meta.url)));
for (const [name, members] of Object.entries(kOurs)) {
  Object.assign($defs[name].properties ?? $defs[name].allOf.at(-1).properties, members);
}
// The description has no chunks of a streamed text completion. They are its whole replies, whose end and usage are not
// known yet.
const kChunk = structuredClone($defs.CreateCompletionResponse);
const orNull = (schema) => ({ anyOf: [schema, { type: 'null' }] });
kChunk.properties.usage = orNull(kChunk.properties.usage);
const kChoice = kChunk.properties.choices.items.properties;
kChoice.finish_reason = orNull(kChoice.finish_reason);
$defs.CompletionChunk = kChunk;
const ajv = new Ajv({ strict: false });
ajv.addSchema({ $id: 'openai', $defs });

function faults(name, body) {
  const check = ajv.getSchema(`openai#/$defs/${name}`);
  return check(body) ? '' : ajv.errorsText(check.errors, { dataVar: name });
}
function hold(name, body) {
  assert.equal(faults(name, body), '', JSON.stringify(body));
  return body;
}
// 'response.output_text.delta' is a ResponseTextDeltaEvent there.
const eventName = (type) =>
  `Response${type.replace(/^response\./, '').replace(/^output_text/, 'text')
    .split(/[._]/).map((word) => word[0].toUpperCase() + word.slice(1)).join('')}Event`;

let served;
before(async () => (served = await startServer('demo', process.env.SLUICE_THINKING_MODEL, '--parallel', '2')));
after(() => served.end());

async function ask(path, body) {
  const sent = body === undefined ? {} : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) };
  return fetch(`${served.address}${path}`, sent);
}
async function whole(name, path, body) {
  const reply = await ask(path, body);
  const json = await reply.json();
  assert.equal(reply.status, 200, JSON.stringify(json));
  return hold(name, json);
}
async function events(path, body) {
  const reply = await ask(path, { ...body, stream: true });
  assert.equal(reply.status, 200);
  return eventsOf(reply);
}
async function chunks(name, path, body) {
  const all = await events(path, { stream_options: { include_usage: true }, ...body });
  assert.equal(all.pop().data, '[DONE]');
  return all.map((event) => hold(name, JSON.parse(event.data)));
}
async function responseEvents(body) {
  const all = (await events('/v1/responses', body)).map(({ event, data }) => {
    const json = JSON.parse(data);
    assert.equal(json.type, event);
    hold('ResponseStreamEvent', json);
    return hold(eventName(event), json);
  });
  assert.deepEqual(all.map((event) => event.sequence_number), [...all.keys()]);
  return all;
}

const kThinker = 'qwen3_5_moe'; // random weights: all that it writes is a thought
const kMessages = [{ role: 'user', content: kAsk }];
const kTool = { name: 'sort', description: 'Sorts an instrument.', parameters: kSchema, strict: true };
const kForm = { type: 'json_schema', name: 'instrument', schema: kSchema, strict: true };
const { type: kFormType, ...kFormOfChat } = kForm;
// What a chat can ask for; each is asked whole and streamed.
const kChats = {
  'an answer': {},
  'two choices that a limit cuts': { n: 2, temperature: 1, max_tokens: 4 },
  'log-probabilities': { logprobs: true, top_logprobs: 3, max_tokens: 4 },
  'a form': { response_format: { type: kFormType, json_schema: kFormOfChat } },
  'calls': { tools: [{ type: 'function', function: kTool }], tool_choice: 'required', parallel_tool_calls: false },
  'a thought': { model: kThinker, reasoning_effort: 'high', max_tokens: 30 },
};
for (const [what, more] of Object.entries(kChats)) {
  test(`chat completions: ${what}`, async () => {
    const body = { model: 'demo', temperature: 0, messages: kMessages, ...more };
    const reply = await whole('CreateChatCompletionResponse', '/v1/chat/completions', body);
    const streamed = await chunks('CreateChatCompletionStreamResponse', '/v1/chat/completions', body);
    assert.equal(streamed.at(-1).usage.completion_tokens, reply.usage.completion_tokens);
    assert.equal(what === 'a thought', (reply.choices[0].message.reasoning_content ?? '') !== '');
  });
}

test('completions: whole and streamed, with log-probabilities', async () => {
  const body = { model: 'demo', prompt: ['A violin is', 'The river'], max_tokens: 3, logprobs: 2 };
  await whole('CreateCompletionResponse', '/v1/completions', body);
  await chunks('CompletionChunk', '/v1/completions', body);
});

const kResponses = {
  'an answer': { instructions: 'Be short.', metadata: { a: 'b' } },
  'an answer that a limit cuts': { max_output_tokens: 3 },
  'log-probabilities': { include: ['message.output_text.logprobs'], top_logprobs: 3 },
  'a form': { text: { format: kForm } },
  'calls': { tools: [{ type: 'function', ...kTool }], tool_choice: { type: 'function', name: 'sort' }, parallel_tool_calls: false },
  'a choice of allowed tools': {
    tools: [{ type: 'function', ...kTool }], max_output_tokens: 8,
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'sort' }] },
  },
  'a thought': { model: kThinker, reasoning: { effort: 'high' }, max_output_tokens: 30 },
};
for (const [what, more] of Object.entries(kResponses)) {
  test(`responses: ${what}`, async () => {
    const body = { model: 'demo', temperature: 0, input: kAsk, ...more };
    const reply = await whole('Response', '/v1/responses', body);
    const streamed = await responseEvents(body);
    assert.equal(streamed[0].type, 'response.created');
    assert.equal(streamed.at(-1).type, `response.${reply.status}`);
    assert.equal(what === 'a thought', reply.output[0].type === 'reasoning');
    assert.equal(streamed.at(-1).response.usage.output_tokens, reply.usage.output_tokens);
    hold('TokenCountsResource', await (await ask('/v1/responses/input_tokens', body)).json());
  });
}

test('models', async () => {
  await whole('ListModelsResponse', '/v1/models');
  await whole('Model', '/v1/models/demo');
});

test('errors, before and within a stream', async () => {
  const body = { model: 'demo', messages: kMessages };
  const refused = [
    ['/v1/chat/completions', { ...body, temperature: 3 }, 400],
    ['/v1/chat/completions', '{"model":', 400],
    ['/v1/chat/completions', { ...body, messages: [{ role: 'user', content: 'word '.repeat(2000) }] }, 400],
    ['/v1/responses', { model: 'nope', input: kAsk }, 404],
    ['/v1/completions', undefined, 405],
    ['/v1/embeddings', { model: 'demo', input: kAsk }, 400],
    ['/v1/models/nope', undefined, 404],
    ['/v1/nope', undefined, 404],
  ];
  for (const [path, asked, status] of refused) {
    const reply = await ask(path, asked);
    assert.equal(reply.status, status, path);
    hold('ErrorResponse', await reply.json());
  }
  // An expression that can read its text in too many ways ends a running answer.
  const guided_regex = '(a{1,1000}){200,1000}';
  const all = await events('/v1/chat/completions', { ...body, guided_regex });
  hold('ErrorResponse', JSON.parse(all.at(-1).data));
  const failed = await responseEvents({ model: 'demo', input: kAsk, guided_regex });
  assert.deepEqual(failed.slice(-2).map((event) => event.type), ['error', 'response.failed']);
});

test('the check fails for a member too many or too few', async () => {
  const good = await whole('CreateChatCompletionResponse', '/v1/chat/completions', { ...kChats.calls, model: 'demo', messages: kMessages });
  const response = await whole('Response', '/v1/responses', { model: 'demo', input: kAsk, max_output_tokens: 3 });
  const spoilt = (name, body, spoil) => {
    const copy = structuredClone(body);
    spoil(copy);
    assert.notEqual(faults(name, copy), '', String(spoil));
  };
  for (const spoil of [(b) => (b.mine = 1), (b) => (b.choices[0].message.mine = 1), (b) => delete b.choices[0].logprobs,
    (b) => (b.usage.mine = 1), (b) => delete b.choices[0].message.tool_calls[0].id, (b) => (b.created = '1')])
    spoilt('CreateChatCompletionResponse', good, spoil);
  for (const spoil of [(b) => (b.mine = 1), (b) => delete b.tools, (b) => (b.output[0].content[0].mine = 1),
    (b) => (b.output[0].type = 'other'), (b) => (b.status = 'done')])
    spoilt('Response', response, spoil);
});

// Unmodified clients against `sluice serve`, as their users call them. run.sh starts this.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { checkForm, kAnswer, kAsk, kSchema, startServer } from './served.mjs';

const kQuestion = [{ role: 'user', content: kAsk }];

// A site that --allow-urls names. It has one picture, and a way to another site.
const site = createServer((request, reply) => {
  if (request.url === '/picture.png') return reply.end(readFileSync(process.env.SLUICE_PICTURE));
  reply.writeHead(302, { location: 'http://localhost:1/picture.png' }).end();
});

let served, address, openai, anthropic, ollama;
before(async () => {
  await new Promise((listens) => site.listen(0, '127.0.0.1', listens));
  served = await startServer('--queue', '0', '--parallel', '2', '--allow-urls', `127.0.0.1:${site.address().port}`);
  address = served.address;
  openai = new OpenAI({ baseURL: `${address}/v1`, apiKey: 'x' });
  anthropic = new Anthropic({ baseURL: address, apiKey: 'x' });
  ollama = new Ollama({ host: address });
});
after(async () => {
  site.closeAllConnections();
  site.close();
  await served.end();
});

const chat = (more) => ({ model: 'demo', temperature: 0, messages: kQuestion, ...more });
const endless = (more) => ({ model: 'demo', prompt: 'A violin is', max_tokens: 900, logit_bias: kNoEnd, ...more });
const kNoEnd = { 1000: 100 }; // always this token, so the answer ends with its limit

async function metric(name) {
  const text = await (await fetch(`${address}/metrics`)).text();
  return Number(new RegExp(`^${name}{[^}]*} (.*)$`, 'm').exec(text)[1]);
}
async function until(holds) {
  for (let i = 0; i < 500; ++i) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail('it did not come to pass');
}

// 0.3 s, most of it a second server's start.
test('the program listens at every --host', async () => {
  const hasIpv6 = Object.values(networkInterfaces()).flat().some((one) => one.address === '::1');
  const other = await startServer('--host', '127.0.0.1', '--host', hasIpv6 ? '::1' : '127.0.0.2');
  const addresses = () => [...other.said().matchAll(/serving \S+ at (http:\S+)\n/g)].map(([, at]) => at);
  await until(() => addresses().length === 2);
  assert.match(addresses()[1], hasIpv6 ? /^http:\/\/\[::1\]:\d+$/ : /^http:\/\/127\.0\.0\.2:\d+$/);
  for (const at of addresses()) assert.equal((await fetch(`${at}/health`)).status, 200);
  await other.end();
});

test('openai: a whole answer', async () => {
  const reply = await openai.chat.completions.create(chat());
  assert.equal(reply.choices[0].message.content, kAnswer);
  assert.equal(reply.choices[0].finish_reason, 'stop');
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

test('openai: the helper of streams gives the whole answer', async () => {
  const stream = openai.chat.completions.stream(chat({ stream_options: { include_usage: true } }));
  let text = '';
  stream.on('content', (piece) => (text += piece));
  const last = await stream.finalChatCompletion();
  assert.equal(text, kAnswer);
  assert.equal(last.choices[0].message.content, kAnswer);
  assert.equal(last.usage.completion_tokens, (await openai.chat.completions.create(chat())).usage.completion_tokens);
});

test('openai: several choices, a limit and a stop string', async () => {
  const two = await openai.chat.completions.create(chat({ n: 2, temperature: 1, max_tokens: 4 }));
  assert.deepEqual(two.choices.map((choice) => choice.finish_reason), ['length', 'length']);
  const stopped = await openai.chat.completions.create(chat({ stop: ' instrument' }));
  assert.equal(stopped.choices[0].message.content, 'violin (noun): bowed stringed');
});

test('openai: log-probabilities, whole and streamed', async () => {
  const body = chat({ logprobs: true, top_logprobs: 3 });
  const whole = (await openai.chat.completions.create(body)).choices[0];
  const tokens = whole.logprobs.content;
  assert.equal(tokens.map((one) => one.token).join(''), kAnswer);
  for (const one of tokens) assert.equal(one.token, one.top_logprobs[0].token); // the likeliest token, as asked
  const streamed = (await openai.chat.completions.stream(body).finalChatCompletion()).choices[0];
  assert.deepEqual(streamed.logprobs.content, tokens);
});

test('openai: models and completions', async () => {
  const models = [];
  for await (const model of openai.models.list()) models.push(model.id);
  assert.deepEqual(models, ['demo']);
  assert.equal((await openai.models.retrieve('demo')).id, 'demo');
  const reply = await openai.completions.create({ model: 'demo', prompt: ['A violin is', 'The river'], max_tokens: 3 });
  assert.equal(reply.choices.length, 2);
});

test('openai: errors are of the classes that programs catch', async () => {
  const once = { maxRetries: 0 };
  await assert.rejects(openai.chat.completions.create(chat({ model: 'nope' })), OpenAI.NotFoundError);
  await assert.rejects(openai.chat.completions.create(chat({ top_logprobs: 2 })), OpenAI.BadRequestError);
  const long = [{ role: 'user', content: 'word '.repeat(2000) }];
  await assert.rejects(openai.chat.completions.create(chat({ messages: long })), { code: 'context_length_exceeded' });
  const control = new AbortController();
  const running = [1, 2].map(() => openai.completions.create(endless(), { signal: control.signal }));
  const ended = Promise.allSettled(running);
  await until(async () => (await metric('sluice_answers_running')) === 2);
  await assert.rejects(openai.chat.completions.create(chat(), once), { status: 503, code: 'queue_full' });
  control.abort();
  await ended;
  await until(async () => (await metric('sluice_answers_running')) === 0);
});

test('openai: responses, whole and by the helper of streams', async () => {
  const body = { model: 'demo', temperature: 0, input: kQuestion[0].content };
  const reply = await openai.responses.create(body);
  assert.equal(reply.output_text, kAnswer);
  assert.equal(reply.status, 'completed');
  const stream = openai.responses.stream(body);
  let text = '';
  stream.on('response.output_text.delta', (event) => (text += event.delta));
  const last = await stream.finalResponse();
  assert.equal(text, kAnswer);
  assert.equal(last.output_text, kAnswer);
  assert.equal(last.usage.output_tokens, reply.usage.output_tokens);
  const cut = await openai.responses.create({ ...body, max_output_tokens: 3 });
  assert.equal(cut.incomplete_details.reason, 'max_output_tokens');
  const stored = { ...body, previous_response_id: reply.id };
  await assert.rejects(openai.responses.create(stored), OpenAI.BadRequestError);
});

test('openai: responses go on from the items of a conversation', async () => {
  const tools = [{ type: 'function', name: 'shelf', parameters: { type: 'object', properties: {} }, strict: false }];
  const input = [
    ...kQuestion,
    { type: 'function_call', call_id: 'call_1', name: 'shelf', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: 'The third.' },
  ];
  const stream = openai.responses.stream({ model: 'demo', input, tools, max_output_tokens: 8 });
  const last = await stream.finalResponse();
  assert.ok(last.output.length > 0);
  assert.equal(last.tools[0].name, 'shelf');
});

test('openai: leaving a stream frees its sequence', async () => {
  for await (const _ of await openai.completions.create(endless({ stream: true }))) break;
  await until(async () => (await metric('sluice_answers_running')) === 0);
});

test('anthropic: a whole answer, and its tokens counted', async () => {
  const body = { model: 'demo', messages: kQuestion, temperature: 0 };
  const reply = await anthropic.messages.create({ ...body, max_tokens: 50 });
  assert.equal(reply.content[0].text, kAnswer);
  assert.equal(reply.stop_reason, 'end_turn');
  const counted = await anthropic.messages.countTokens({ model: 'demo', messages: kQuestion });
  assert.equal(counted.input_tokens, reply.usage.input_tokens + reply.usage.cache_read_input_tokens);
});

test('anthropic: a stream gives the same message', async () => {
  const stream = anthropic.messages.stream({ model: 'demo', messages: kQuestion, temperature: 0, max_tokens: 50 });
  let text = '';
  stream.on('text', (piece) => (text += piece));
  const message = await stream.finalMessage();
  assert.equal(text, kAnswer);
  assert.equal(message.content[0].text, kAnswer);
  assert.equal(message.stop_reason, 'end_turn');
  assert.ok(message.usage.output_tokens > 5);
});

test('anthropic: a stop sequence is named, and errors have their classes', async () => {
  const body = { model: 'demo', messages: kQuestion, temperature: 0, max_tokens: 50 };
  const reply = await anthropic.messages.create({ ...body, stop_sequences: [' instrument'] });
  assert.equal(reply.stop_reason, 'stop_sequence');
  assert.equal(reply.stop_sequence, ' instrument');
  await assert.rejects(anthropic.messages.create({ ...body, model: 'nope' }), Anthropic.NotFoundError);
  await assert.rejects(anthropic.messages.create({ ...body, temperature: 3 }), Anthropic.BadRequestError);
});

test('ollama: chat and generate, whole and streamed', async () => {
  const options = { temperature: 0 };
  const whole = await ollama.chat({ model: 'demo', messages: kQuestion, options });
  assert.equal(whole.message.content, kAnswer);
  assert.equal(whole.done_reason, 'stop');
  let text = '';
  for await (const line of await ollama.chat({ model: 'demo', messages: kQuestion, options, stream: true }))
    text += line.message.content;
  assert.equal(text, kAnswer);
  const generated = await ollama.generate({ model: 'demo', prompt: kAsk, options });
  assert.equal(generated.response, kAnswer);
  assert.ok(generated.eval_duration > 0);
});

test('ollama: what it knows of models, and its errors', async () => {
  assert.deepEqual((await ollama.list()).models.map((model) => model.name), ['demo']);
  assert.equal((await ollama.ps()).models.length, 1);
  assert.ok((await ollama.show({ model: 'demo' })).capabilities.includes('completion'));
  await assert.rejects(ollama.chat({ model: 'nope', messages: kQuestion }), /nope not found/);
});

// The demo with its towers, asked as tests/data/gemma4/golden.json asks the reference model (image1).
const kAsked = 'What is in this picture?';
const kSeen = 'A red circle on the left and a blue square on the right.';
const kPicture = readFileSync(process.env.SLUICE_PICTURE).toString('base64');
test('every client shows a picture', async () => {
  const url = `data:image/png;base64,${kPicture}`;
  const parts = [{ type: 'image_url', image_url: { url } }, { type: 'text', text: kAsked }];
  const reply = await openai.chat.completions.create(chat({ messages: [{ role: 'user', content: parts }] }));
  assert.equal(reply.choices[0].message.content, kSeen);
  const content = [{ type: 'input_image', detail: 'auto', image_url: url }, { type: 'input_text', text: kAsked }];
  const response = await openai.responses.create({ model: 'demo', temperature: 0, input: [{ role: 'user', content }] });
  assert.equal(response.output_text, kSeen);
  const source = { type: 'base64', media_type: 'image/png', data: kPicture };
  const blocks = [{ type: 'image', source }, { type: 'text', text: kAsked }];
  const body = { model: 'demo', temperature: 0, max_tokens: 50, messages: [{ role: 'user', content: blocks }] };
  assert.equal((await anthropic.messages.create(body)).content[0].text, kSeen);
  const asked = { role: 'user', content: kAsked, images: [kPicture] };
  const options = { temperature: 0 };
  assert.equal((await ollama.chat({ model: 'demo', messages: [asked], options })).message.content, kSeen);
  const generated = await ollama.generate({ model: 'demo', prompt: kAsked, images: [kPicture], options });
  assert.equal(generated.response, kSeen);
});

test('pictures are fetched from the site that is allowed', async () => {
  const url = `http://127.0.0.1:${site.address().port}`;
  const text = { type: 'text', text: kAsked };
  const asked = (image_url) => chat({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url }, text] }] });
  const reply = await openai.chat.completions.create(asked({ url: `${url}/picture.png` }));
  assert.equal(reply.choices[0].message.content, kSeen);
  const blocks = [{ type: 'image', source: { type: 'url', url: `${url}/picture.png` } }, text];
  const body = { model: 'demo', temperature: 0, max_tokens: 50, messages: [{ role: 'user', content: blocks }] };
  assert.equal((await anthropic.messages.create(body)).content[0].text, kSeen);
  await assert.rejects(openai.chat.completions.create(asked({ url: `${url}/away` })), (refused) => {
    assert.equal(refused.status, 400);
    assert.equal(refused.param, 'messages[0].content[0].image_url');
    return refused.message.includes('the server fetches nothing from localhost:1: want a host that --allow-urls names');
  });
});

const kBadSchema = { type: 'object', properties: { a: { type: 'string', pattern: '(?=x)' } } };

// The demo was never taught to call tools: the server enforces these calls.
test('calls that are required are made, and their arguments fit the schema', async () => {
  const once = { parallel_tool_calls: false };
  const named = { type: 'function', function: { name: 'sort' } };
  const tool = { name: 'sort', description: 'Sorts an instrument.', parameters: kSchema, strict: true };
  const tools = [{ type: 'function', function: tool }];
  for (const tool_choice of ['required', named]) {
    const stream = openai.chat.completions.stream(chat({ ...once, tools, tool_choice }));
    const reply = await stream.finalChatCompletion();
    assert.equal(reply.choices[0].finish_reason, 'tool_calls');
    checkForm(JSON.parse(reply.choices[0].message.tool_calls[0].function.arguments));
  }
  const parsed = await openai.chat.completions.parse(chat({ ...once, tools, tool_choice: 'required' }));
  checkForm(parsed.choices[0].message.tool_calls[0].function.parsed_arguments);
  const flat = { model: 'demo', temperature: 0, input: 'Sort a violin.', tools: [{ type: 'function', ...tool }] };
  const response = await openai.responses.parse({ ...flat, ...once, tool_choice: { type: 'function', name: 'sort' } });
  checkForm(response.output[0].parsed_arguments);
  const message = await anthropic.messages.create({
    model: 'demo', messages: kQuestion, temperature: 0, max_tokens: 100, tools: [{ name: 'sort', input_schema: kSchema }],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  });
  assert.equal(message.stop_reason, 'tool_use');
  checkForm(message.content[0].input);
});

test('openai: a loop of tools ends with the answer', async () => {
  const asked = [];
  const runner = openai.chat.completions.runTools({
    ...chat({ max_tokens: 60, parallel_tool_calls: false }),
    tool_choice: { type: 'function', function: { name: 'sort' } },
    tools: [{ type: 'function', function: { name: 'sort', parameters: kSchema, parse: JSON.parse,
                                            function: (given) => (asked.push(given), 'It has strings.') } }],
  });
  await runner.finalContent().catch(() => {});  // with a named tool the loop ends behind its call
  assert.equal(asked.length, 1);
  checkForm(asked[0]);
});

test('answers in the form of a schema, and a schema that is refused', async () => {
  const format = (schema) => ({ type: 'json_schema', json_schema: { name: 'instrument', schema, strict: true } });
  const reply = await openai.chat.completions.create(chat({ response_format: format(kSchema) }));
  checkForm(JSON.parse(reply.choices[0].message.content));
  await assert.rejects(openai.chat.completions.create(chat({ response_format: format(kBadSchema) })), OpenAI.BadRequestError);
  const text = { format: { type: 'json_schema', name: 'instrument', schema: kSchema, strict: true } };
  const parsed = await openai.responses.parse({ model: 'demo', temperature: 0, input: kQuestion[0].content, text });
  checkForm(parsed.output_parsed);
  const body = { model: 'demo', messages: kQuestion, temperature: 0, max_tokens: 100 };
  const message = await anthropic.messages.create({ ...body, output_config: { format: { type: 'json_schema', schema: kSchema } } });
  checkForm(JSON.parse(message.content[0].text));
  const options = { temperature: 0 };
  checkForm(JSON.parse((await ollama.chat({ model: 'demo', messages: kQuestion, options, format: kSchema })).message.content));
  await assert.rejects(ollama.chat({ model: 'demo', messages: kQuestion, format: kBadSchema }), /pattern/);
});

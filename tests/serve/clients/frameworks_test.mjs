// Frameworks over the same APIs: Vercel's AI SDK with OpenAI's and Anthropic's providers, and LangChain. Each asks for a
// text, a stream and a call. run.sh starts this.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, jsonSchema, streamText, tool } from 'ai';
import { checkForm, kAnswer, kAsk, kSchema, startServer } from './served.mjs';

let served, base;
before(async () => {
  served = await startServer();
  base = { baseURL: `${served.address}/v1`, apiKey: 'x' };
});
after(() => served.end());

const kModels = {
  'openai chat': () => createOpenAI(base).chat('demo'),
  'openai responses': () => createOpenAI(base).responses('demo'),
  anthropic: () => createAnthropic(base)('demo'),
};
for (const [name, model] of Object.entries(kModels))
  test(`ai, ${name}: a text, a stream and a call`, async () => {
    const asked = { model: model(), prompt: kAsk, temperature: 0, maxOutputTokens: 60, maxRetries: 0 };
    const whole = await generateText(asked);
    assert.equal(whole.text, kAnswer);
    assert.equal(whole.finishReason, 'stop');
    assert.ok(whole.usage.outputTokens > 5);
    const stream = streamText(asked);
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, kAnswer);
    assert.equal(await stream.finishReason, 'stop');
    const sort = tool({ description: 'Sorts an instrument.', inputSchema: jsonSchema(kSchema) });
    const called = await generateText({ ...asked, tools: { sort }, toolChoice: { type: 'tool', toolName: 'sort' } });
    assert.equal(called.finishReason, 'tool-calls');
    assert.equal(called.toolCalls[0].toolName, 'sort');
    checkForm(called.toolCalls[0].input);
  });

test('langchain: a text, a stream and a call', async () => {
  const model = new ChatOpenAI({
    model: 'demo', apiKey: 'x', temperature: 0, maxTokens: 60, maxRetries: 0, configuration: { baseURL: base.baseURL },
  });
  assert.equal((await model.invoke(kAsk)).content, kAnswer);
  let text = '';
  for await (const piece of await model.stream(kAsk)) text += piece.content;
  assert.equal(text, kAnswer);
  const sort = { name: 'sort', description: 'Sorts an instrument.', parameters: kSchema };
  const calling = model.bindTools([{ type: 'function', function: sort }], {
    tool_choice: 'sort', parallel_tool_calls: false, strict: true,
  });
  const [call] = (await calling.invoke(kAsk)).tool_calls;
  assert.equal(call.name, 'sort');
  checkForm(call.args);
});

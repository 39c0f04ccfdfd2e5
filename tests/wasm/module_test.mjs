// Broken files in the page's module: module_test.mjs MODULE. Each gives a sentence, and the module goes on: with 32-bit
// addresses no size or offset of a file may wrap.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadModule } from './host.mjs';
import { decodePicture } from './media_files.mjs';
import { filesOf } from './small_models.mjs';

const kDemo = 'demo.gguf';
const { module, files, addFile } = await loadModule(process.argv[2]);
const demo = readFileSync('assets/demo-gemma4-q8_0.gguf');

async function sentenceOf(options) {
  try {
    (await module.open(options)).close();
  } catch (error) {
    assert.ok(!(error instanceof WebAssembly.RuntimeError), `the module trapped: ${error}`);
    return error.message;
  }
  assert.fail(`${JSON.stringify(options)} opened`);
}
async function sentenceOfFile(path, bytes) {
  addFile(path, bytes);
  const sentence = await sentenceOf({ model: path });
  files.delete(path);
  return sentence;
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
const text = (value) => Buffer.concat([u64(value.length), Buffer.from(value)]);
// A GGUF file of one f32 tensor and 64 bytes of data.
function gguf({ rows = 4n, offset = 0n, keys = [] } = {}) {
  const header = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(1), u64(keys.length), ...keys, text('a'), u32(2), u64(4),
                                u64(rows), u32(0), u64(offset)]);
  return Buffer.concat([header, Buffer.alloc((32 - (header.length % 32)) % 32), Buffer.alloc(64)]);
}
function safetensors(tensor) {
  const header = Buffer.from(JSON.stringify({ a: tensor }));
  return Buffer.concat([u64(header.length), header, Buffer.alloc(16)]);
}

// A folder of PEFT with an adapter of the demo's first layers, of rank 4.
function addAdapterFiles(folder) {
  const header = {};
  let bytes = 0;
  for (const layer of [0, 1, 2])
    for (const [name, shape] of [['A', [4, 256]], ['B', [256, 4]]]) {
      const tensor = `base_model.model.model.language_model.layers.${layer}.self_attn.q_proj.lora_${name}.weight`;
      header[tensor] = { dtype: 'F32', shape, data_offsets: [bytes, bytes + 4096] };
      bytes += 4096;
    }
  const data = Float32Array.from({ length: bytes / 4 }, (_, i) => Math.sin(i * i));
  const names = Buffer.from(JSON.stringify(header));
  addFile(`${folder}/adapter_model.safetensors`, Buffer.concat([u64(names.length), names, Buffer.from(data.buffer)]));
  addFile(`${folder}/adapter_config.json`, Buffer.from('{"peft_type": "LORA", "lora_alpha": 4}'));
}

const tests = {
  async 'a file that is not there'() {
    assert.equal(await sentenceOf({ model: 'none.gguf' }), 'none.gguf: no such file or directory');
  },
  async 'options that make no sense'() {
    addFile(kDemo, demo);
    assert.match(await sentenceOf({ model: kDemo, device: 'gpu' }), /want webgpu, cpu or reference/);
    assert.match(await sentenceOf({ model: kDemo, arithmetic: 'rough' }), /want exact or fast/);
    assert.match(await sentenceOf({ model: kDemo, context: -1 }), /want a number from 0 to 4294967295/);
    assert.match(await sentenceOf({ model: kDemo, expert_memory: -1 }), /^expert_memory: found -1: want a number of bytes$/);
    assert.match(await sentenceOf({ model: kDemo, memory: '1G' }), /^memory: found "1G": want a number/);
    assert.match(await sentenceOf({ model: 7 }), /want one/);
    files.delete(kDemo);
  },
  async 'a whole small file is read up to its missing architecture'() {
    assert.match(await sentenceOfFile('a.gguf', gguf()), /general\.architecture/);
  },
  async 'an offset beyond 32 bits does not wrap'() {
    assert.match(await sentenceOfFile('a.gguf', gguf({ offset: 1n << 32n })), /a\.gguf: .*want/);
    assert.doesNotMatch(await sentenceOfFile('a.gguf', gguf({ offset: 1n << 32n })), /general\.architecture/);
  },
  async 'a size beyond 32 bits does not wrap'() {
    for (const rows of [(1n << 28n) + 4n, (1n << 32n) + 4n, (1n << 60n) + 4n]) {
      assert.doesNotMatch(await sentenceOfFile('a.gguf', gguf({ rows })), /general\.architecture/, `${rows} rows`);
    }
  },
  async 'a count beyond 32 bits does not wrap'() {
    const array = Buffer.concat([text('k'), u32(9), u32(0), u64((1n << 32n) + 1n), Buffer.alloc(1)]);
    assert.doesNotMatch(await sentenceOfFile('a.gguf', gguf({ keys: [array] })), /general\.architecture/);
    const string = Buffer.concat([text('k'), u32(8), u64((1n << 32n) + 1n), Buffer.alloc(1)]);
    assert.doesNotMatch(await sentenceOfFile('a.gguf', gguf({ keys: [string] })), /general\.architecture/);
  },
  async 'safetensors offsets beyond 32 bits do not wrap'() {
    const end = 2 ** 32 + 16;
    addFile('m/config.json', Buffer.from('{"model_type": "gemma4_text"}'));
    for (const tensor of [{ dtype: 'F32', shape: [2 ** 30 + 4], data_offsets: [0, end] },
                          { dtype: 'F32', shape: [4], data_offsets: [2 ** 32, end] }]) {
      addFile('m/model.safetensors', safetensors(tensor));
      assert.match(await sentenceOf({ model: 'm' }), /model\.safetensors: /);
    }
    files.delete('m/config.json');
    files.delete('m/model.safetensors');
  },
  async 'a file cut anywhere gives a sentence'() {
    for (let size = 0; size < demo.length; size = size * 2 + 37) {
      assert.match(await sentenceOfFile('cut.gguf', demo.subarray(0, size)), /cut\.gguf: /, `${size} bytes`);
    }
  },
  async 'a template nested as deep as it may be has room on the stack'() {
    const folder = 'tests/data/gemma4_moe';
    for (const file of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors']) {
      addFile(`m/${file}`, readFileSync(`${folder}/${file}`));
    }
    const nested = [(n) => `{{ ${'('.repeat(n)}1${')'.repeat(n)} }}`,
                    (n) => `${'{% if 1 %}'.repeat(n)}1${'{% endif %}'.repeat(n)}`,
                    (n) => `{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% else %}1{% endif %}{% endmacro %}{{ f(${n}) }}`];
    for (const make of nested) {
      let deepest = 0;
      for (let n = 10; n < 2000; n += 30) {
        addFile('m/chat_template.jinja', Buffer.from(make(n)));
        let model = null;
        try {
          model = await module.open({ model: 'm', context: 64 });
          assert.equal(model.render({ messages: [] }), '1');
          deepest = n;
        } catch (error) {
          assert.match(error.message, /nested deeper/);
        }
        model?.close();
      }
      assert.ok(deepest >= 40, `${make(1)}: ${deepest}`);
    }
    for (const file of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors', 'chat_template.jinja']) {
      files.delete(`m/${file}`);
    }
  },
  async 'what does not fit the memory of 32-bit addresses is refused by the budget'() {
    addFile(kDemo, demo);
    assert.match(await sentenceOf({ model: kDemo, context: 4294967295 }), /want/);
    files.delete(kDemo);
  },
  async 'memory below what a model needs is refused, and from there on its experts are read as they are chosen'() {
    for (const [file, path] of filesOf('gemma4_moe')) addFile(`m/${file}`, readFileSync(path));
    const options = { model: 'm', context: 256 }, request = { prompt: [2, 5, 9, 100, 7], max_tokens: 8 };
    assert.match(await sentenceOf({ ...options, memory: 1e6 }),
                 /^host memory: 1\.0 MB in all: want at least 2\d\d\.\d MB \(268\.4 MB held and in reserve, .*, at least 2 experts .*\)$/);
    const open = (memory) => module.open({ ...options, memory }).catch(() => null);
    let [refused, enough] = [2 ** 28, 2 ** 30];
    while (enough - refused > 1) {
      const memory = Math.floor((refused + enough) / 2), model = await open(memory);
      if (model === null) refused = memory;
      else enough = memory;
      model?.close();
    }
    const whole = await open(2 ** 30), least = await open(enough);
    const answers = [(await whole.run(request)).tokens, (await least.run(request)).tokens];
    assert.deepEqual(answers[1], answers[0]);
    assert.equal(whole.stats().experts, null);
    const { slots, experts, misses } = least.stats().experts;
    assert.ok(slots >= 2 && slots < experts && misses > slots, `${misses} misses in ${slots} of ${experts} slots`);
    const held = least.stats().memory.reduce((sum, { bytes }) => sum + bytes, 0);
    assert.ok(held <= enough, `${held} bytes: want at most ${enough}`);
    whole.close();
    least.close();
    files.clear();
  },
  async 'a model without experts takes no memory for them'() {
    addFile(kDemo, demo);
    const model = await module.open({ model: kDemo, expert_memory: 1e6 });
    assert.equal(model.stats().experts, null);
    model.close();
    files.delete(kDemo);
  },
  async 'a conversation goes on from what it has computed, may be stopped, and is saved'() {
    addFile(kDemo, demo);
    const model = await module.open({ model: kDemo, context: 512 });
    const answerTo = async (turn) => {
      model.begin({ max_tokens: 8, ...turn });
      assert.throws(() => model.begin(turn), /^EngineError: an answer is being made: want it to end first$/);
      let text = '';
      for (;;) {
        const news = await model.goOn();
        text += news?.text ?? '';
        if (news !== null && news.finish !== 'running') return { ...news, text };
      }
    };
    assert.equal(model.sequence, 0);
    const question = { role: 'user', content: 'What is a violin?' };
    const first = await answerTo({ messages: [question] });
    assert.match(first.text, /^violin \(noun\): bow/);
    assert.deepEqual([first.finish, first.answer_tokens, first.reused_tokens], ['length', 8, 0]);
    assert.equal(first.computed_tokens, first.prompt_tokens);
    const messages = [question, { role: 'assistant', content: first.text }, { role: 'user', content: 'And a cello?' }];
    const second = await answerTo({ messages });
    assert.ok(second.reused_tokens > 0);
    // Once more from a state that was saved before, by a sequence of its own.
    const state = await model.saveState(model.sequence);
    model.sequence = 0;
    model.sequence = model.restoreState(state).sequence;
    assert.equal((await answerTo({ messages })).text, second.text);
    const stopped = await answerTo({ messages, stop: [second.text.slice(2, 4)] });
    assert.deepEqual([stopped.finish, stopped.text], ['stop', second.text.slice(0, second.text.indexOf(second.text.slice(2, 4)))]);
    // Text without a template begins with the model's first token.
    assert.equal((await answerTo({ prompt: 'violin' })).prompt_tokens, 1 + model.encode('violin').length);
    assert.throws(() => model.begin({ messages: [{ role: 'user', content: 'violin '.repeat(600) }] }),
                  /the conversation has \d+ tokens: want less than the context of 512$/);
    assert.throws(() => model.begin({ prompt: '\0', stop: [7] }), /stop: found 7: want strings/);
    const schema = { type: 'object', properties: { word: { enum: ['violin', 'cello'] } }, required: ['word'], additionalProperties: false };
    const formed = await answerTo({ messages: [question], schema, max_tokens: 0 });
    assert.match(formed.text, /^\{\s*"word":\s*"(violin|cello)"\s*\}$/);
    assert.equal(formed.finish, 'stop');
    assert.throws(() => model.begin({ messages: [question], schema: { not: {} } }), /schema: .*not: cannot be honoured/);
    model.begin({ messages });
    model.cancel();
    let last = null;
    while ((last = await model.goOn()) === null || last.finish === 'running');
    assert.equal(last.finish, 'cancelled');
    model.begin({ messages }); // closed while an answer runs
    model.close();
    files.delete(kDemo);
  },
  async 'a picture is named by its number, kept between turns, and told from one that differs in a pixel'() {
    for (const [file, path] of filesOf('gemma4_dense')) addFile(`m/${file}`, readFileSync(path));
    const model = await module.open({ model: 'm', context: 512 });
    assert.deepEqual([model.facts.takes_pictures, model.facts.takes_sounds], [true, false]);
    const { cases } = JSON.parse(readFileSync('tests/data/gemma4_dense/golden.json'));
    const { messages: [question], input_ids: ids } = cases.find(({ kind }) => kind === 'image');
    const picture = decodePicture(readFileSync('tests/data/gemma4_dense/image.png'));
    const { media: [number], rows } = model.addPicture(picture);
    const { text } = question.content[1];
    const show = (media, repeated = 12) =>
      ({ role: 'user', content: [{ type: 'image', media }, { type: 'text', text: text.repeat(repeated) }] });
    const answerTo = async (messages) => {
      model.begin({ messages, max_tokens: 4 });
      for (let text = ''; ; ) {
        const news = await model.goOn();
        text += news?.text ?? '';
        if (news !== null && news.finish !== 'running') return { ...news, text };
      }
    };
    const short = await answerTo([show(number, 1)]);
    assert.deepEqual([short.prompt_tokens, short.reused_tokens], [ids.length, 0]);
    // Long enough for a cut behind the picture, within which there is none.
    const first = await answerTo([show(number)]);
    const second = await answerTo([show(number), { role: 'assistant', content: first.text }, { role: 'user', content: 'And why?' }]);
    assert.ok(second.reused_tokens > rows, `${second.reused_tokens} of ${first.prompt_tokens} tokens of the first turn`);
    const [again] = model.addPicture(picture).media;
    const third = await answerTo([show(again)]);
    assert.ok(again !== number && third.reused_tokens > rows && third.text === first.text);
    const data = picture.data.slice().fill(0, 0, 3);
    const fourth = await answerTo([show(model.addPicture({ ...picture, data }).media[0])]);
    assert.ok(fourth.reused_tokens < ids.length - rows, `${fourth.reused_tokens} tokens of another picture`);

    assert.ok(model.addPicture(picture, 10).rows <= 10);
    assert.throws(() => model.addPicture({ width: 2, height: 2, data: new Uint8Array(15) }), /^EngineError: picture of 2 x 2 pixels: has 15 bytes: want 4 a pixel$/);
    assert.throws(() => model.addPicture({ width: 0, height: 2, data: new Uint8Array(0) }), /picture of 0 x 2 pixels: want at least one$/);
    assert.throws(() => model.addPicture({ width: 65536, height: 65536, data: new Uint8Array(4) }), /want sides of at most 65535$/);
    assert.throws(() => model.addPicture({ width: 65535, height: 65535, data: new Uint8Array(4) }), /want at most 67108864 pixels$/);
    assert.throws(() => model.addSound(new Float32Array(100), 16000), /^EngineError: m: has no audio tower: want a model that takes sounds$/);
    model.removeMedia(number);
    assert.throws(() => model.begin({ messages: [show(number)] }), new RegExp(`there is no picture or sound ${number}: want it added first$`));
    assert.throws(() => model.begin({ messages: [question] }), /messages: found \{"type": "image"\}: want text, or media with its number$/);
    assert.throws(() => model.submit({ prompt: ids.slice(0, 20), media: [again] }), /want its \d+ rows$/);
    model.close();
    files.clear();
    addFile(kDemo, demo);
    const without = await module.open({ model: kDemo, context: 64 });
    assert.equal(without.facts.takes_pictures, false);
    assert.throws(() => without.addPicture(picture), /^EngineError: demo\.gguf: has no vision tower: want a model that takes pictures$/);
    without.close();
    assert.match(await sentenceOf({ model: kDemo, projector: 'none.gguf' }), /^none\.gguf: cannot open: no such file or directory$/);
    files.delete(kDemo);
  },
  async 'adapters come and go between answers'() {
    addFile(kDemo, demo);
    assert.match(await sentenceOf({ model: kDemo, adapter_slots: 1000 }), /want at most 256 of ranks from 1 to 4096$/);
    const model = await module.open({ model: kDemo, context: 128, adapter_slots: 1, adapter_rank: 4 });
    const prompt = model.encode(model.render({ messages: [{ role: 'user', content: 'What is a violin?' }] }));
    const answer = async (adapters) =>
      model.decode((await model.run({ prompt, max_tokens: 8, ...(adapters && { adapters }) })).tokens);
    const plain = await answer();
    await assert.rejects(model.addAdapter('lora'), /^EngineError: lora: no such adapter: want a folder or a GGUF file$/);
    addAdapterFiles('lora');
    assert.deepEqual(await model.addAdapter('lora', 2), [{ name: 'lora', scale: 2, rank: 4, weights: 3 }]);
    const adapted = await answer();
    assert.notEqual(adapted, plain);
    // A request may name its own.
    assert.equal(await answer({}), plain);
    assert.equal(await answer({ lora: 0 }), plain);
    assert.notEqual(await answer({ lora: -2 }), adapted);
    assert.throws(() => model.submit({ prompt, adapters: { none: 1 } }), /no adapter none: want lora$/);
    assert.throws(() => model.submit({ prompt, adapters: ['lora'] }), /want an object of names and scales$/);
    await model.scaleAdapter('lora', 0);
    assert.equal(await answer(), plain);
    await model.scaleAdapter('lora', 2);
    assert.equal(await answer(), adapted);
    await assert.rejects(model.dropAdapter('none'), /no adapter none: want lora$/);
    assert.deepEqual(await model.dropAdapter('lora'), []);
    assert.equal(await answer(), plain);
    model.close();
    files.clear();
  },
  async 'a model makes room for adapters that come'() {
    addFile(kDemo, demo);
    const model = await module.open({ model: kDemo, context: 128 });
    const prompt = model.encode(model.render({ messages: [{ role: 'user', content: 'What is a violin?' }] }));
    const answer = async () => model.decode((await model.run({ prompt, max_tokens: 8 })).tokens);
    const held = () => model.stats().memory.find(({ purpose }) => purpose === 'adapters')?.bytes ?? 0;
    const plain = await answer();
    assert.equal(held(), 0);
    addAdapterFiles('one');
    addAdapterFiles('two');
    model.submit({ prompt, max_tokens: 8 });
    await assert.rejects(model.addAdapter('one'), /an answer is being made: want it to end first$/);
    while (model.collect().finish === 'running') await model.step();
    await model.addAdapter('one', 2);
    const adapted = await answer();
    assert.notEqual(adapted, plain);
    assert.ok(held() > 0, 'a line of the budget');
    assert.deepEqual((await model.addAdapter('two', -2)).map(({ name, scale }) => [name, scale]), [['one', 2], ['two', -2]]);
    assert.equal(await answer(), plain, 'they cancel each other');
    await model.scaleAdapter('two', 0.5);
    await model.dropAdapter('two');
    assert.equal(await answer(), adapted);
    await model.scaleAdapter('one', 0);
    assert.equal(await answer(), plain);
    model.close();
    files.clear();
  },
  async 'an adapter is taught, and acts'() {
    addFile(kDemo, demo);
    const model = await module.open({ model: kDemo, context: 256 });
    const answerTo = async (content, adapters = undefined) => {
      const prompt = model.encode(model.render({ messages: [{ role: 'user', content }] }));
      return model.decode((await model.run({ prompt, max_tokens: 16, ...(adapters && { adapters }) })).tokens);
    };
    const kQuestion = 'What is a blorptrix?';
    const examples = `${kQuestion} => blorptrix (noun): a teapot that sings.\nDefine zumbel. => zumbel (noun): a small dog.\n`;
    const plain = [await answerTo(kQuestion), await answerTo('What is a violin?')];
    const { examples: count, tokens, faults } = model.lookAtExamples({ examples: `${examples}nonsense` });
    assert.deepEqual([count, faults], [2, ['line 3: is neither JSON nor a question => answer: want one of both']]);
    for (const [options, sentence] of [
      [{ examples: 'nonsense' }, /none that can be learnt: line 1: is neither JSON/],
      [{ examples: '' }, /none that can be learnt: want a line for each/],
      [{ examples, rank: 0 }, /^EngineError: rank: found 0: want a number from 1 to 4096$/],
      [{ examples, rate: 'fast' }, /^EngineError: rate: found "fast": want a number/],
      [{ examples, steps: -1 }, /^EngineError: steps: found -1: want a number/],
      [{ examples, learn_all: 1 }, /^EngineError: learn_all: found 1: want true or false$/],
    ])
      assert.throws(() => model.train(options), sentence);
    assert.equal(await answerTo(kQuestion), plain[0], 'refused options leave the model as it was');

    const plan = model.train({ examples, rank: 8, rate: 5e-3, steps: 14 });
    assert.deepEqual(plan, { examples: 2, steps: 14, tokens: 14 * tokens, faults: [] });
    assert.throws(() => model.begin({ prompt: 'a' }), /^EngineError: the model learns: want its training to end first$/);
    assert.throws(() => model.train({ examples }), /the model learns/);
    await assert.rejects(model.load(), /the model learns/);
    assert.ok(model.stats().memory.some(({ purpose, bytes }) => purpose === 'adapters' && bytes > 0));
    const losses = [];
    for (let news = null; news?.finish !== 'done'; ) {
      news = await model.trainOn();
      if (news !== null) losses.push(news.loss);
    }
    assert.equal(losses.length, 14);
    assert.ok(losses.at(-1) < losses[0] / 4, `loss ${losses}`);
    const trained = ['adapter_config.json', 'adapter_model.safetensors', 'adapter.gguf'].map((name) => model.trainedFile(name));
    assert.throws(() => model.trainedFile('other'), /other/);
    model.endTraining();
    await model.load();
    assert.equal(await answerTo(kQuestion), plain[0]);
    addFile('learnt/adapter_config.json', trained[0]);
    addFile('learnt/adapter_model.safetensors', trained[1]);
    addFile('learnt.gguf', trained[2]);
    await model.addAdapter('learnt');
    const learnt = await answerTo(kQuestion);
    assert.match(learnt, /a teapot that sings/);
    assert.deepEqual([await answerTo(kQuestion, {}), await answerTo('What is a violin?', {})], plain);
    await model.dropAdapter('learnt');
    await model.addAdapter('learnt.gguf');
    assert.equal(await answerTo(kQuestion), learnt, 'both forms are the same adapter');

    // Stopped in the middle of a step, it keeps what the steps before have learnt, and may be taught again.
    const stopped = async (steps) => {
      model.train({ examples, rank: 8, rate: 5e-3, steps: 14, part_tokens: 2 });
      for (let done = 0; done < steps; ) if ((await model.trainOn()) !== null) ++done;
      if (steps > 0) assert.equal(await model.trainOn(), null, 'a part of the next step');
      model.stopTraining();
      let news = null;
      while (news === null) news = await model.trainOn();
      assert.deepEqual([news.finish, news.step], ['stopped', steps]);
      const file = model.trainedFile('adapter_model.safetensors');
      model.endTraining();
      await model.load();
      return Buffer.from(file);
    };
    const [none, three, again] = [await stopped(0), await stopped(3), await stopped(3)];
    assert.ok(!three.equals(none) && three.equals(again));
    assert.equal(await answerTo(kQuestion), learnt, 'adapters outlive a training');
    model.train({ examples, steps: 1 }); // closed while it is trained
    model.close();
    files.clear();
  },
  async 'the module answers after all that'() {
    addFile(kDemo, demo);
    const model = await module.open({ model: kDemo });
    files.delete(kDemo); // its bytes stay as long as they are used
    const prompt = model.encode(model.render({ messages: [{ role: 'user', content: 'What is a violin?' }] }));
    await assert.rejects(model.run({ prompt: [-1] }), /want/);
    await assert.rejects(model.run({ prompt: [1e6] }), /want/);
    await assert.rejects(model.run({ prompt: 'violin' }), /prompt: is no array/);
    const { tokens } = await model.run({ prompt, max_tokens: 8 });
    assert.match(model.decode(tokens), /^violin \(noun\): bow/);
    model.close();
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
  } catch (error) {
    ++failed;
    console.error(`failed: ${name}\n${error.stack}`);
  }
}
console.log(`module: ${Object.keys(tests).length - failed} tests passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

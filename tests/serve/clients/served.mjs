// `sluice serve` of the program in SLUICE_PROGRAM, for a file of tests: starts before them, and has to end well.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';

// The address, a function that ends the server, and one that tells what it has said on standard error.
export async function startServer(...more) {
  const server = spawn(process.env.SLUICE_PROGRAM, ['serve', '--port', '0', '--context', '1024', ...more]);
  let said = '';
  const address = await new Promise((resolve, reject) => {
    server.stderr.on('data', (bytes) => {
      said += bytes;
      const found = /serving [^\n]* at (http:\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
    server.on('exit', (status) => reject(new Error(`sluice serve ended with ${status}: ${said}`)));
  });
  const end = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    assert.equal(await ended, 0);
  };
  return { address, end, said: () => said };
}

// The events of a stream: {event, data}. Comments are left out.
export async function eventsOf(reply) {
  const blocks = (await reply.text()).split('\n\n');
  assert.equal(blocks.pop(), '', 'a stream ends with a whole event');
  return blocks.filter((block) => !block.startsWith(':')).map((block) => {
    const event = {};
    for (const line of block.split('\n')) event[line.slice(0, line.indexOf(':'))] = line.slice(line.indexOf(':') + 2);
    return event;
  });
}

export const kAsk = 'What is a violin?';
export const kAnswer = 'violin (noun): bowed stringed instrument that is the highest member of the violin family.';
export const kSchema = {
  type: 'object',
  properties: { family: { enum: ['strings', 'wind'] }, keys: { type: 'boolean' } },
  required: ['family', 'keys'],
  additionalProperties: false,
};

// That it has the schema's form.
export function checkForm(answer) {
  assert.deepEqual(Object.keys(answer), ['family', 'keys']);
  assert.ok(kSchema.properties.family.enum.includes(answer.family));
  assert.equal(typeof answer.keys, 'boolean');
}

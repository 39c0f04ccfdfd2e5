// GET /metrics, read by Prometheus' own checker, promtool, of SLUICE_PROMTOOL. run.sh starts this.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { startServer } from './served.mjs';

let served;
before(async () => (served = await startServer('demo', process.env.SLUICE_OTHER_MODEL)));
after(() => served.end());

// Its exit status and what it has to say: 0 and nothing, when names, types, units and buckets are as Prometheus wants.
function check(text) {
  const { status, stdout, stderr } = spawnSync(process.env.SLUICE_PROMTOOL, ['check', 'metrics'], { input: text, encoding: 'utf8' });
  return `${status} ${stdout}${stderr}`;
}

test('promtool takes the metrics, before and behind answers of several models', { skip: !process.env.SLUICE_PROMTOOL }, async () => {
  const metrics = async () => (await fetch(`${served.address}/metrics`)).text();
  assert.equal(check(await metrics()), '0 ');
  for (const model of ['demo', 'gemma4_dense', 'nope']) {
    const body = JSON.stringify({ model, prompt: 'a', max_tokens: 3 });
    await (await fetch(`${served.address}/v1/completions`, { method: 'POST', body })).text();
  }
  const text = await metrics();
  assert.match(text, /sluice_time_to_first_token_seconds_count{model="gemma4_dense"} 1\n/);
  assert.equal(check(text), '0 ');
  assert.notEqual(check(text.replace('le="+Inf"', 'le="-"')), '0 '); // it can fail
  assert.notEqual(check(text.replaceAll('sluice_prompt_tokens_total', 'sluice_prompt_tokens')), '0 ');
});

// What models write, as the page shows it: Markdown, code, formulas; nothing of it acts. And axe in every view.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, loadDemo, openPage, setDevice } from './harness.mjs';
import { context, faultsOf, openModels, site } from './suite.mjs';

const kAnswer = `# A title

A [link](https://example.org/a?b=1&c), https://example.org/bare, a [trap](javascript:alert(1)) and ![a chart](https://example.org/chart.png).
**Bold**, *slanted*, ~~gone~~ and \`code\`: <img src=x onerror="window.harmed = 1"> <script>window.harmed = 1</script>

1. one
   - inner a
   - inner b
     1. deep
2. two

- [x] done
- [ ] to do

> A quotation
> of two lines

| name | amount |
|:--|--:|
| lute | 12 |

\`\`\`python
def f(x):
    return "x" * 2  # twice
\`\`\`

---

It costs $5 and $10. Inline $a^2+b^2=c^2$ and \\(e^{i\\pi}\\), and

$$\\int_0^1 x\\,dx = \\tfrac12$$

Broken: $\\frac{1$ and $\\href{javascript:alert(1)}{x}$.
`;

// A conversation whose answer is that text.
async function openAnswer(page, text = kAnswer) {
  const common = { thinking: '', finished: true, note: '', created: 1 };
  const messages = [
    { ...common, id: 'q', parent: null, role: 'user', content: 'Show all.' },
    { ...common, id: 'a', parent: 'q', role: 'assistant', content: text, thinking: 'First *this*.' },
  ];
  const conversations = [{ id: 'c', name: 'All', created: 1, changed: 1, tip: 'a', messages }];
  const archive = JSON.stringify({ format: 'sluice-conversations', version: 1, conversations });
  await page.locator('#import-file').setInputFiles({ name: 'a.json', mimeType: 'application/json', buffer: Buffer.from(archive) });
  await page.locator('#conversation-list .name', { hasText: 'All' }).click();
  await page.locator('#messages .assistant > .text:not(.plain)').waitFor();
}
const answer = (page) => page.locator('#messages .assistant > .text');

test('Markdown is shown, highlighted and copied, works without a network, and nothing in it acts', async () => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await openPage(context, site);
  await openAnswer(page);
  await page.locator('.math.drawn').nth(2).waitFor();
  await page.locator('.hljs-keyword').first().waitFor();
  const count = (selector) => answer(page).locator(selector).count();
  assert.equal(await answer(page).locator('h3').innerText(), 'A title');
  assert.equal(await count('> ol > li'), 2, 'the numbered list has two items');
  assert.equal(await count('> ol > li > ul > li'), 2);
  assert.equal(await count('> ol > li > ul > li > ol > li'), 1);
  assert.deepEqual(await answer(page).locator('input').evaluateAll((all) => all.map(({ checked }) => checked)), [true, false]);
  for (const one of ['blockquote', 'hr', 's', 'em', 'strong', 'table', 'code.language-python'])
    assert.ok((await count(one)) > 0, one);
  assert.equal(await answer(page).locator('td').last().evaluate((cell) => getComputedStyle(cell).textAlign), 'right');
  assert.equal(await count('.math'), 5);
  assert.match(await answer(page).innerText(), /It costs \$5 and \$10\./);
  assert.equal(await page.evaluate(() => document.fonts.check('16px KaTeX_Main')), true, 'the fonts of formulas are there');
  // Links open safely, and nothing of the text ran or was fetched.
  const links = await answer(page).locator('a').evaluateAll((all) => all.map((a) => [a.getAttribute('href'), a.target, a.rel]));
  const safe = ['_blank', 'noopener noreferrer'];
  const shown = ['https://example.org/a?b=1&c', 'https://example.org/bare', 'https://example.org/chart.png'];
  assert.deepEqual(links, shown.map((href) => [href, ...safe]));
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.equal(await count('img, script'), 0);
  assert.match(await answer(page).innerText(), /<script>window\.harmed = 1<\/script>/, 'it is shown as it is');
  assert.equal(await page.locator('#messages .thinking em').textContent(), 'this');

  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.locator('#messages .assistant').getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await clipboard(), kAnswer);
  await page.getByRole('button', { name: 'Copy code' }).click();
  await page.getByRole('button', { name: 'Copied' }).first().waitFor();
  assert.equal(await clipboard(), 'def f(x):\n    return "x" * 2  # twice');

  const licences = await page.evaluate(async () => (await fetch('licences.txt')).text());
  for (const library of ['markdown-it', 'dompurify', 'highlight.js', 'katex', 'hash-wasm', 'nlohmann-json3-dev', 'wasi-libc'])
    assert.ok(licences.includes(`\n${library} `) || licences.includes(`\n${library},`) || licences.startsWith(library), library);

  await page.evaluate(() => navigator.serviceWorker.ready);
  site.down = true;
  await page.reload();
  await page.locator('.math.drawn').nth(2).waitFor();
  await page.locator('.hljs-keyword').first().waitFor();
});

test('axe finds nothing in any view, light and dark, wide and narrow', async () => {
  const page = await openPage(context, site);
  const faults = [];
  const check = async (view) => faults.push(...(await faultsOf(page, view)));
  await check('welcome');
  await openModels(page);
  await check('models');
  await page.keyboard.press('Escape');
  await setDevice(page, 'cpu');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Temperature').fill('99');
  await check('settings with a fault');
  await page.getByLabel('Temperature').fill('0');
  await page.keyboard.press('Escape');
  await loadDemo(page);
  await ask(page, 'What is a violin?');
  await page.getByRole('button', { name: 'Again' }).click();
  await page.locator('#messages .assistant .versions').waitFor();
  await check('conversation');
  await page.getByRole('button', { name: 'Edit' }).click();
  await check('an edited question');
  await page.keyboard.press('Escape');
  await openAnswer(page);
  await page.locator('.math.drawn').nth(2).waitFor();
  await page.locator('.hljs-keyword').first().waitFor();
  await check('Markdown');
  await page.getByRole('button', { name: 'Dark colours' }).click();
  await check('Markdown, dark');
  await page.setViewportSize({ width: 360, height: 640 });
  await page.getByRole('button', { name: 'Conversations', exact: true }).click();
  await check('the list on a phone');
  await page.getByRole('button', { name: 'Delete All' }).click();
  await page.getByRole('button', { name: 'Undo' }).waitFor();
  await check('a deleted conversation');
  assert.deepEqual(faults, []);
});

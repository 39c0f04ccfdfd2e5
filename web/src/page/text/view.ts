// A text of a model as elements, drawn anew as it grows: only blocks that have changed are. Until the libraries are there,
// and where they cannot be loaded, the text stands as it is.
import { h } from '../dom.ts';

type Markdown = typeof import('./markdown.ts');

let markdown: Markdown | null = null;
let loading: Promise<void> | null = null;

// Also called ahead, so that the first answer finds it.
export function loadMarkdown(): Promise<void> {
  loading ??= import('./markdown.ts')
    .then((loaded) => void (markdown = loaded))
    .catch((error: unknown) => {
      console.warn('answers are shown as plain text:', error);
      loading = null;
    });
  return loading;
}

export class TextView {
  readonly element = h('div', { className: 'text plain' });
  private blocks: { html: string; nodes: Node[] }[] = [];
  private text = '';

  show(text: string): void {
    this.text = text;
    if (markdown === null) {
      this.element.textContent = text;
      void loadMarkdown().then(() => markdown !== null && this.draw(markdown));
    } else this.draw(markdown);
  }

  private draw({ blocksOf, elementsOf }: Markdown): void {
    if (this.element.classList.contains('plain')) {
      this.element.classList.remove('plain');
      this.element.replaceChildren();
    }
    const wanted = blocksOf(this.text);
    let same = 0;
    while (same < wanted.length && this.blocks[same]?.html === wanted[same]) ++same;
    for (const { nodes } of this.blocks.splice(same)) for (const node of nodes) (node as ChildNode).remove();
    for (const html of wanted.slice(same)) {
      const nodes = elementsOf(html);
      this.element.append(...nodes);
      for (const node of nodes) if (node instanceof HTMLElement) finish(node);
      this.blocks.push({ html, nodes: nodes.map((node) => finished.get(node) ?? node) });
    }
  }
}

const finished = new WeakMap<Node, Node>(); // a block, and what stands around it

function finish(block: HTMLElement): void {
  for (const code of block.matches('pre') ? [block] : block.querySelectorAll<HTMLElement>('pre')) finishCode(code);
  for (const table of block.matches('table') ? [block] : block.querySelectorAll<HTMLElement>('table')) finishTable(table);
  for (const item of block.querySelectorAll('li')) finishTask(item);
  const formulas = [...(block.matches('.math') ? [block] : []), ...block.querySelectorAll<HTMLElement>('.math')];
  if (formulas.length === 0) return;
  import('./formula.ts').then(({ drawFormula }) => formulas.forEach(drawFormula)).catch(() => {}); // stays its source
}

function finishCode(pre: HTMLElement): void {
  const code = pre.querySelector('code');
  if (code === null) return;
  const source = code.textContent ?? '';
  const language = /\blanguage-(\S+)/.exec(code.className)?.[1];
  if (language !== undefined)
    import('./highlight.ts').then(({ highlight }) => highlight(code, language)).catch(() => {}); // stays without colours
  const copy = h('button', { type: 'button', className: 'action' }, 'Copy code');
  copy.onclick = () => void copyText(source.replace(/\n$/, ''), copy);
  around(pre, h('div', { className: 'code' }, h('div', { className: 'row' }, h('span', { className: 'quiet' }, language ?? 'text'), copy)));
  pre.tabIndex = 0; // a wide one is scrolled with the keyboard
  pre.setAttribute('role', 'group');
  pre.setAttribute('aria-label', language === undefined ? 'Code' : `Code, ${language}`);
}

function finishTable(table: HTMLElement): void {
  around(table, h('div', { className: 'wide', tabIndex: 0, role: 'group', ariaLabel: 'Table' }));
}

function around(element: HTMLElement, frame: HTMLElement): void {
  element.replaceWith(frame);
  frame.append(element);
  finished.set(element, frame);
}

// "[x] done" at the beginning of an item.
function finishTask(item: HTMLElement): void {
  const place = item.firstElementChild?.tagName === 'P' ? item.firstElementChild : item;
  const text = place.firstChild;
  const found = text instanceof Text ? /^\[([ xX])\]\s/.exec(text.data) : null;
  if (!(text instanceof Text) || found === null) return;
  text.data = text.data.slice(found[0].length);
  const done = found[1] !== ' ';
  place.prepend(h('input', { type: 'checkbox', checked: done, disabled: true, ariaLabel: done ? 'done' : 'to do' }));
  item.classList.add('task');
}

// Says so on the button for a moment.
export async function copyText(text: string, button: HTMLElement): Promise<void> {
  const before = button.textContent;
  const copied = await (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
    () => true,
    () => false,
  );
  button.textContent = copied ? 'Copied' : 'Not allowed here';
  setTimeout(() => (button.textContent = before), 1500);
}

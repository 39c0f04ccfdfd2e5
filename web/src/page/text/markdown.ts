// What models write of Markdown, as elements: code blocks, lists, headings, paragraphs; code, bold and italics in them.
// Everything else stays text. No HTML is ever parsed.
import { h } from './dom.ts';

const kInline = /(`+)(.+?)\1|\*\*(?=\S)(.+?)\*\*|(?<![\w*])\*(?=\S)([^*]+?)\*(?![\w*])/g;

function inline(text: string): (Node | string)[] {
  const nodes: (Node | string)[] = [];
  let at = 0;
  for (const match of text.matchAll(kInline)) {
    nodes.push(text.slice(at, match.index));
    const [whole, , code, bold, italic] = match;
    if (code !== undefined) nodes.push(h('code', {}, code));
    else if (bold !== undefined) nodes.push(h('strong', {}, ...inline(bold)));
    else nodes.push(h('em', {}, ...inline(italic!)));
    at = match.index + whole.length;
  }
  nodes.push(text.slice(at));
  return nodes;
}

const kItem = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

function list(lines: string[]): HTMLElement {
  const items = lines.map((line) => h('li', {}, ...inline(kItem.exec(line)![2]!)));
  const first = kItem.exec(lines[0]!)![1];
  return first === undefined ? h('ul', {}, ...items) : h('ol', { start: Number(first) }, ...items);
}

function paragraph(lines: string[]): HTMLElement {
  const heading = /^#{1,6}\s+(.*)$/.exec(lines[0]!);
  if (heading && lines.length === 1) return h('p', { className: 'heading' }, ...inline(heading[1]!));
  return h('p', {}, ...inline(lines.join('\n')));
}

// The end of a code block that is still being written may be missing.
export function markdown(text: string): HTMLElement[] {
  const blocks: HTMLElement[] = [];
  let lines: string[] = [],
    isList = false;
  const flush = (): void => {
    if (lines.length > 0) blocks.push(isList ? list(lines) : paragraph(lines));
    lines = [];
  };
  let fence: string | null = null,
    code: string[] = [];
  const closeFence = (): void => {
    blocks.push(h('pre', { tabIndex: 0 }, h('code', {}, code.join('\n'))));
    [fence, code] = [null, []];
  };
  for (const line of text.split('\n')) {
    if (fence !== null) {
      if (line.trim() === fence) closeFence();
      else code.push(line);
      continue;
    }
    const opening = /^\s*(```+)/.exec(line);
    const item = kItem.test(line);
    if (opening || line.trim() === '' || item !== isList || /^#{1,6}\s/.test(line)) flush();
    isList = item;
    if (opening) fence = opening[1]!;
    else if (line.trim() !== '') lines.push(line);
    if (/^#{1,6}\s/.test(line)) flush();
  }
  if (fence !== null) closeFence();
  flush();
  return blocks;
}

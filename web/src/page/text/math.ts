// Formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] on their own. They become elements of class "math" whose text
// is the formula; formula.ts draws them.
//
// A dollar opens before something that is no space, and the next one closes, if it stands behind such and before no digit: "$5
// and $10" is no formula. What is not closed stays text.
import type { MarkdownIt, StateBlock, StateInline } from 'markdown-it';

const kInline = [
  { open: '$$', close: '$$', display: true },
  { open: '$', close: '$', display: false },
  { open: '\\(', close: '\\)', display: false },
  { open: '\\[', close: '\\]', display: true },
];
const kBlocks = kInline.filter(({ display }) => display);

// Where the formula that begins at `from` ends; -1: it does not.
function endOf(text: string, from: number, close: string): number {
  for (let at = text.indexOf(close, from); at >= 0; at = text.indexOf(close, at + 1)) {
    if (close[0] === '$' && text[at - 1] === '\\') continue;
    return close !== '$' || (!/\s/.test(text[at - 1]!) && !/\d/.test(text[at + 1] ?? '')) ? at : -1;
  }
  return -1;
}

function inline(state: StateInline, silent: boolean): boolean {
  const { src, pos } = state;
  const kind = kInline.find(({ open }) => src.startsWith(open, pos));
  if (kind === undefined) return false;
  const from = pos + kind.open.length;
  if (kind.open === '$' && /\s|^$/.test(src[from] ?? '')) return false;
  const end = endOf(src, from, kind.close);
  if (end <= from) return false;
  if (!silent) state.push('math', 'span', 0).content = src.slice(from, end);
  if (!silent && kind.display) state.tokens.at(-1)!.info = 'display';
  state.pos = end + kind.close.length;
  return true;
}

function block(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  const lineOf = (line: number): string => state.src.slice(state.bMarks[line]! + state.tShift[line]!, state.eMarks[line]);
  const first = lineOf(startLine);
  const kind = kBlocks.find(({ open }) => first.startsWith(open));
  if (kind === undefined) return false;
  let line = startLine;
  let text = first.slice(kind.open.length);
  while (!text.trimEnd().endsWith(kind.close)) {
    if (++line >= endLine || text.includes(kind.close)) return false;
    text += `\n${lineOf(line)}`;
  }
  if (silent) return true;
  state.line = line + 1;
  const token = state.push('math_block', 'div', 0);
  token.content = text.trimEnd().slice(0, -kind.close.length);
  token.map = [startLine, state.line];
  return true;
}

export function addMath(parser: MarkdownIt): void {
  const { escapeHtml } = parser.utils;
  parser.inline.ruler.before('escape', 'math', inline);
  parser.block.ruler.before('fence', 'math_block', block, { alt: ['paragraph', 'reference', 'blockquote', 'list'] });
  parser.renderer.rules.math = (tokens, i) =>
    `<span class="math${tokens[i]!.info === 'display' ? ' display' : ''}">${escapeHtml(tokens[i]!.content)}</span>`;
  parser.renderer.rules.math_block = (tokens, i) => `<div class="math display">${escapeHtml(tokens[i]!.content)}</div>`;
}

// Markdown to safe HTML, block by block (markdown-it, DOMPurify). Models write CommonMark with tables, strikethrough and
// bare addresses; formulas are recognised by math.ts. HTML in the text is shown as text. Loaded when there is something to show.
import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';
import type { Token } from 'markdown-it';
import { addMath } from './math.ts';

const kFirstHeading = 3; // the page's own titles are above
const kTags =
  'p br hr h3 h4 h5 h6 ul ol li strong em s del a code pre blockquote table thead tbody tr th td span div'.split(' ');
const kAttributes = ['href', 'title', 'start', 'class'];
const kSafeAddress = /^(?:https?|mailto):/i;

const parser = new MarkdownIt({ html: false, linkify: true, breaks: true, typographer: false });
parser.use(addMath);
// Only what is an address beyond doubt: "readme.md" is a file.
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

// A picture of another server would tell it who reads the answer: its address stands there instead.
parser.renderer.rules.image = (tokens, index) => {
  const { content } = tokens[index]!;
  const source = `${tokens[index]!.attrGet('src') ?? ''}`;
  const { escapeHtml } = parser.utils;
  return `<a href="${escapeHtml(source)}">${escapeHtml(content || source)}</a>`;
};

// Titles below the page's, and the columns of tables by class, because the page allows no inline styles.
parser.core.ruler.push('page', ({ tokens }) => {
  for (const token of tokens) {
    const level = /^h([1-6])$/.exec(token.tag)?.[1];
    if (level !== undefined) token.tag = `h${Math.min(Number(level) - 1 + kFirstHeading, 6)}`;
    const style = token.attrGet('style');
    if (style === null) continue;
    token.attrs = token.attrs!.filter(([name]) => name !== 'style');
    token.attrJoin('class', `${style}`.replace(/^text-align:/, 'align-'));
  }
});

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  const address = node.getAttribute('href') ?? '';
  if (!kSafeAddress.test(address)) return void node.removeAttribute('href');
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer');
});

// The HTML of each block at the top, so that a caller draws anew only those that have changed.
export function blocksOf(text: string): string[] {
  const env = {};
  const blocks: string[] = [];
  let block: Token[] = [];
  let depth = 0;
  for (const token of parser.parse(text, env)) {
    block.push(token);
    depth += token.nesting;
    if (depth > 0) continue;
    blocks.push(parser.renderer.render(block, parser.options, env));
    block = [];
  }
  return blocks;
}

export function elementsOf(html: string): Node[] {
  const allowed = { ALLOWED_TAGS: kTags, ALLOWED_ATTR: kAttributes, ALLOW_DATA_ATTR: false };
  return [...DOMPurify.sanitize(html, { ...allowed, RETURN_DOM_FRAGMENT: true }).childNodes];
}

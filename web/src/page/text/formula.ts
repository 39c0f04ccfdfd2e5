// A formula drawn by KaTeX. Loaded when an answer has one.
import katex from 'katex';
import 'katex/dist/katex.min.css';

const kMostExpansions = 1000; // of macros, so that no formula runs away
const kLargestSize = 50; // em

export function drawFormula(element: HTMLElement): void {
  const source = element.textContent ?? '';
  // The page allows no inline styles in HTML, so KaTeX makes elements.
  katex.render(source, element, {
    displayMode: element.classList.contains('display'),
    throwOnError: false,
    trust: false,
    maxExpand: kMostExpansions,
    maxSize: kLargestSize,
    strict: 'ignore',
    errorColor: 'currentColor',
  });
  element.classList.add('drawn');
}

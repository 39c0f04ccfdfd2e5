// The colours of code (highlight.js, its common languages). Loaded when an answer has code that names its language.
import highlighter from 'highlight.js/lib/common';

export function highlight(code: HTMLElement, language: string): void {
  if (highlighter.getLanguage(language) === undefined) return;
  const { value } = highlighter.highlight(code.textContent ?? '', { language, ignoreIllegals: true });
  code.innerHTML = value; // the library escapes all text
}

// Elements without a framework.

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

type Child = Node | string | null;
type Properties<K extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[K], 'style' | 'dataset' | 'attributes'>
>;

// h('button', { type: 'button', ariaLabel: 'Send', onclick: send }, '>')
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties<K> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

// A dialog whose backdrop closes it, as Escape does.
export function lightDismiss(dialog: HTMLDialogElement): void {
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
}

export const formatCount = (count: number): string => count.toLocaleString('en');

// A drawing of 24 by 24, as the page's other buttons have it.
export function icon(path: string): SVGSVGElement {
  const kSvg = 'http://www.w3.org/2000/svg';
  const drawing = document.createElementNS(kSvg, 'svg');
  drawing.setAttribute('viewBox', '0 0 24 24');
  drawing.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(kSvg, 'path');
  line.setAttribute('d', path);
  drawing.append(line);
  return drawing;
}

// Offers the bytes as a file of that name.
export function saveAs(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  h('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

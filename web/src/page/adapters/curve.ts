// The losses of a training as a curve that grows.
import { h } from '../dom.ts';

const kSvg = 'http://www.w3.org/2000/svg';
const kWidth = 320,
  kHeight = 96,
  kMargin = 4;

export class LossCurve {
  readonly element = h('figure', { className: 'curve' });
  private readonly line = document.createElementNS(kSvg, 'polyline');
  private readonly most = h('span', {});
  private readonly drawing = document.createElementNS(kSvg, 'svg');
  private losses: number[] = [];
  private steps = 1; // in all

  constructor() {
    this.drawing.setAttribute('viewBox', `0 0 ${kWidth} ${kHeight}`);
    this.drawing.setAttribute('preserveAspectRatio', 'none');
    this.drawing.setAttribute('role', 'img');
    this.line.setAttribute('vector-effect', 'non-scaling-stroke');
    this.drawing.append(this.line);
    this.element.append(h('figcaption', {}, 'Loss', this.most), this.drawing);
    this.clear(1);
  }

  clear(steps: number): void {
    this.steps = steps;
    this.losses = [];
    this.draw();
  }
  add(loss: number): void {
    this.losses.push(loss);
    this.draw();
  }
  get first(): number | null {
    return this.losses[0] ?? null;
  }

  // The left edge is the first step, the right one the last; the lower one is 0.
  private draw(): void {
    const { losses } = this;
    const most = Math.max(...losses, 1e-6);
    const x = (i: number): number => kMargin + ((kWidth - 2 * kMargin) * i) / Math.max(this.steps - 1, 1);
    const y = (loss: number): number => kHeight - kMargin - ((kHeight - 2 * kMargin) * loss) / most;
    this.line.setAttribute('points', losses.map((loss, i) => `${x(i).toFixed(1)},${y(loss).toFixed(1)}`).join(' '));
    const [first, last] = [losses[0], losses.at(-1)];
    this.most.textContent = first === undefined ? '' : `${first.toFixed(3)} → ${last!.toFixed(3)}`;
    const from = first === undefined ? '' : `, from ${first.toFixed(3)} to ${last!.toFixed(3)}`;
    this.drawing.setAttribute('aria-label', `Loss of ${losses.length} steps${from}`);
  }
}

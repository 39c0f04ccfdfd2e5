// What comes piece by piece: iterate over the pieces, or await `result`. Leaving the loop stops it.
export class Stream<Piece, Result> implements AsyncIterable<Piece> {
  readonly result: Promise<Result>;
  private readonly pieces: Piece[] = [];
  private wake: () => void = () => {};
  private ended = false;
  private readonly controller = new AbortController();

  constructor(start: (onPiece: (piece: Piece) => void, signal: AbortSignal) => Promise<Result>, signal?: AbortSignal) {
    const both = signal ? AbortSignal.any([signal, this.controller.signal]) : this.controller.signal;
    this.result = start((piece) => (this.pieces.push(piece), this.wake()), both).finally(() => {
      this.ended = true;
      this.wake();
    });
    this.result.catch(() => {}); // who iterates hears of it there
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Piece, void, undefined> {
    try {
      for (;;) {
        for (let piece; (piece = this.pieces.shift()); ) yield piece;
        if (this.ended) break;
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
      await this.result; // throws what went wrong
    } finally {
      this.controller.abort();
      await this.result.catch(() => {}); // then the model is free for the next one
    }
  }
}

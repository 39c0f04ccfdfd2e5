// What goes wrong, each as one sentence a person can act on: "where: found X: want Y".

export type ErrorKind =
  | 'model' // the engine refuses the file, the request or the text
  | 'network' // a server does not answer, or not as it should
  | 'changed' // the file on the server is another one than before
  | 'digest' // what came is not what was asked for
  | 'quota' // the page's storage is full
  | 'storage' // the page's storage refuses something else
  | 'device-lost' // the GPU went away; load the model again
  | 'aborted' // the caller's signal
  | 'closed' // the model was closed, or its worker ended
  | 'server' // a server refuses the request, or ends an answer
  | 'key' // a server wants another key
  | 'busy'; // an answer is being made

export class SluiceError extends Error {
  override readonly name = 'SluiceError';
  readonly kind: ErrorKind;
  constructor(kind: ErrorKind, sentence: string) {
    super(sentence);
    this.kind = kind;
  }
}

// As it travels between the worker and the page.
export interface ErrorMessage {
  kind: ErrorKind;
  sentence: string;
}

export function toMessage(error: unknown, otherwise: ErrorKind): ErrorMessage {
  if (error instanceof SluiceError) return { kind: error.kind, sentence: error.message };
  return { kind: otherwise, sentence: error instanceof Error ? error.message : String(error) };
}

export const fromMessage = ({ kind, sentence }: ErrorMessage): SluiceError => new SluiceError(kind, sentence);

// An AbortSignal's reason is the caller's business; what we throw for it is always this.
export const aborted = (): SluiceError => new SluiceError('aborted', 'stopped by the caller');

const kUnits = ['bytes', 'KB', 'MB', 'GB', 'TB'];
// 3221225472 to "3.2 GB": decimal, as disks and downloads are sold.
export function formatBytes(bytes: number): string {
  let unit = 0;
  for (; bytes >= 1000 && unit < kUnits.length - 1; ++unit) bytes /= 1000;
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${kUnits[unit]}`;
}

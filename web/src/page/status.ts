// What the page says beside the conversation: an error with what can be done, and words for people who do not see it change.
import { SluiceError } from '../index.ts';
import { byId } from './dom.ts';

// A sentence's first letter; a file's name at its beginning stays as it is.
const capital = (text: string): string =>
  /^[a-z]+[\s,:]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
export function sentenceOf(error: unknown): string {
  const sentence = capital(error instanceof Error ? error.message : String(error));
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

export function announce(text: string): void {
  byId('announce').textContent = text;
}

export const isAborted = (error: unknown): boolean => error instanceof SluiceError && error.kind === 'aborted';
// The model has to be loaded again.
export const isGone = (error: unknown): boolean =>
  error instanceof SluiceError && (error.kind === 'device-lost' || error.kind === 'closed');

// A server's or the way's to it: the question may be asked again.
const kOfServer = new Set(['server', 'key', 'network']);
export const isOfServer = (error: unknown): boolean => error instanceof SluiceError && kOfServer.has(error.kind);

// `again`: loads the model again, where that may help.
export function showError(error: unknown, again: (() => void) | null = null): void {
  byId('error-text').textContent = sentenceOf(error);
  byId('error').hidden = false;
  const button = byId('error-again');
  button.hidden = again === null;
  button.onclick = again;
}
export function hideError(): void {
  byId('error').hidden = true;
}
byId('error-close').onclick = hideError;

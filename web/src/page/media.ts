// Pictures and sounds as the page shows them: a thumbnail, or a small player with its length.
import type { MediaPart, Message, Part } from '../index.ts';
import { mediaOf } from '../index.ts';
import { h } from './dom.ts';

const addresses = new WeakMap<Blob, string>();
const lengths = new WeakMap<Blob, number>(); // seconds, once they are known

const blobOf = (part: MediaPart): Blob => (part.type === 'image' ? part.image : part.audio);

function addressOf(blob: Blob): string {
  const address = addresses.get(blob) ?? URL.createObjectURL(blob);
  addresses.set(blob, address);
  return address;
}
// What is no longer shown gives its memory back.
export function release(parts: MediaPart[]): void {
  for (const blob of parts.map(blobOf)) {
    const address = addresses.get(blob);
    if (address !== undefined) URL.revokeObjectURL(address);
    addresses.delete(blob);
  }
}

export function noteLength(part: MediaPart, seconds: number): void {
  lengths.set(blobOf(part), seconds);
}
export const formatLength = (seconds: number): string => {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
};

export const nameOf = (part: MediaPart): string => part.alt ?? (part.type === 'image' ? 'picture' : 'sound');

export function mediaView(part: MediaPart): HTMLElement {
  const src = addressOf(blobOf(part));
  const name = nameOf(part);
  if (part.type === 'image') return h('img', { src, alt: name, title: name, className: 'thumbnail' });
  const seconds = lengths.get(part.audio);
  const player = h('audio', { src, controls: true, preload: 'metadata', ariaLabel: name });
  return h(
    'span',
    { className: 'sound' },
    player,
    h('small', {}, seconds === undefined ? name : `${name}, ${formatLength(seconds)}`),
  );
}

// ---- messages

export function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

// Pictures and sounds come before the text.
export function contentOf(media: MediaPart[], text: string): string | Part[] {
  if (media.length === 0) return text;
  return text === '' ? media : [...media, { type: 'text', text }];
}

// With a note in the place of what cannot be kept, or what the model does not take.
export function withoutMedia(messages: Message[], isLeftOut: (part: MediaPart) => boolean = () => true): Message[] {
  return messages.map((message) => {
    const media = mediaOf(message);
    if (!media.some(isLeftOut)) return message;
    const notes = media.filter(isLeftOut).map((part) => `[${part.type === 'image' ? 'picture' : 'sound'}: ${nameOf(part)}]`);
    const text = [...notes, textOf(message)].filter((line) => line !== '').join('\n');
    const kept = media.filter((part) => !isLeftOut(part));
    return { ...message, content: contentOf(kept, text) };
  });
}

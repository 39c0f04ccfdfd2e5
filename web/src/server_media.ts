// Pictures and sounds as OpenAI's API takes them. What a server may not decode is decoded by the browser, and sent as PNG or
// WAV. Each is made once.
import { base64, dataUrl } from './base64.ts';
import { bitmapOf } from './pixels.ts';
import type { MediaPart } from './protocol.ts';
import { decodeSound, kSoundRate } from './samples.ts';

export interface SentMedia {
  part: unknown; // of a message's content
  seconds: number; // of a sound; 0: a picture
}

const kPictures = /^image\/(png|jpeg|webp|gif|bmp)$/;
const kSounds: Record<string, string> = { 'audio/wav': 'wav', 'audio/x-wav': 'wav', 'audio/wave': 'wav', 'audio/mpeg': 'mp3' };
const kHeaderBytes = 44; // of a WAV file
const made = new WeakMap<Blob, Promise<SentMedia>>();

export function sentMedia(part: MediaPart): Promise<SentMedia> {
  const blob = part.type === 'image' ? part.image : part.audio;
  const known = made.get(blob) ?? (part.type === 'image' ? picture(blob) : sound(blob));
  made.set(blob, known);
  known.catch(() => made.delete(blob)); // may be tried again
  return known;
}

async function picture(blob: Blob): Promise<SentMedia> {
  const bitmap = await bitmapOf(blob); // fails where it is no picture
  try {
    const url = await dataUrl(kPictures.test(blob.type) ? blob : await png(bitmap));
    return { part: { type: 'image_url', image_url: { url } }, seconds: 0 };
  } finally {
    bitmap.close();
  }
}
function png(bitmap: ImageBitmap): Promise<Blob> {
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0);
  return canvas.convertToBlob({ type: 'image/png' });
}

async function sound(blob: Blob): Promise<SentMedia> {
  const samples = await decodeSound(blob);
  const format = kSounds[blob.type];
  const data = await base64(format === undefined ? wav(samples) : blob);
  return { part: { type: 'input_audio', input_audio: { data, format: format ?? 'wav' } }, seconds: samples.length / kSoundRate };
}
// 16 bits, one channel.
function wav(samples: Float32Array): Blob {
  const view = new DataView(new ArrayBuffer(kHeaderBytes + 2 * samples.length));
  const text = (at: number, letters: string): void => [...letters].forEach((one, i) => view.setUint8(at + i, one.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, view.byteLength - 8, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true); // bytes of the format
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, kSoundRate, true);
  view.setUint32(28, 2 * kSoundRate, true); // bytes a second
  view.setUint16(32, 2, true); // bytes of a sample
  view.setUint16(34, 16, true); // bits of it
  text(36, 'data');
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((one, i) => view.setInt16(kHeaderBytes + 2 * i, Math.round(Math.max(-1, Math.min(1, one)) * 32767), true));
  return new Blob([view.buffer], { type: 'audio/wav' });
}

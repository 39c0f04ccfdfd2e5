// Sounds as the engine takes them: one channel at 16 kHz, decoded and resampled by the browser. Page only: workers have no
// audio.
import { SluiceError } from './errors.ts';

export const kSoundRate = 16_000; // samples a second: what towers take

export async function decodeSound(blob: Blob): Promise<Float32Array<ArrayBuffer>> {
  const bytes = await blob.arrayBuffer();
  try {
    // Decoding converts to the context's rate.
    return mixed(await new OfflineAudioContext(1, 1, kSoundRate).decodeAudioData(bytes));
  } catch {
    const name = blob instanceof File ? blob.name : 'sound';
    throw new SluiceError('model', `${name}: this browser does not decode it: want a WAV, MP3, Ogg, FLAC or MP4 sound`);
  }
}

// The mean of all channels.
function mixed(buffer: AudioBuffer): Float32Array<ArrayBuffer> {
  const samples = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; ++channel) {
    const own = buffer.getChannelData(channel);
    for (let i = 0; i < own.length; ++i) samples[i]! += own[i]! / buffer.numberOfChannels;
  }
  return samples;
}

// A sound of a golden: WAV of one channel of 16-bit samples. Browsers scale such samples in ways of their own, so goldens are
// read by this in pages as well.
export function decodeWav(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const name = (at) => String.fromCharCode(...bytes.subarray(at, at + 4));
  let rate = 0;
  for (let at = 12; at + 8 <= bytes.length; at += 8 + view.getUint32(at + 4, true) + (view.getUint32(at + 4, true) & 1)) {
    if (name(at) === 'fmt ') {
      rate = view.getUint32(at + 12, true);
      if (view.getUint16(at + 10, true) !== 1 || view.getUint16(at + 22, true) !== 16)
        throw new Error('a WAV sound: want one channel of 16 bits');
    }
    if (name(at) !== 'data') continue;
    const count = view.getUint32(at + 4, true) / 2;
    return { rate, samples: Float32Array.from({ length: count }, (_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768) };
  }
  throw new Error('a WAV sound without samples');
}

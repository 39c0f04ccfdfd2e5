// Pictures of goldens, decoded by what Node has: PNG of 8-bit RGB that is not interlaced. Others are null; a browser decodes
// them.
import { inflateSync } from 'node:zlib';

const kColours = 3, kPageColours = 4;

// What the five filters of PNG add to a byte: nothing, the byte of the pixel before, above, the mean of both, or the
// nearest of three to their plane.
const kPredict = [
  () => 0,
  (left) => left,
  (left, up) => up,
  (left, up) => (left + up) >> 1,
  (left, up, corner) => {
    const plane = left + up - corner, [a, b, c] = [left, up, corner].map((one) => Math.abs(plane - one));
    return a <= b && a <= c ? left : b <= c ? up : corner;
  },
];

// The contents of the chunks of that name, one behind the other.
function chunksOf(bytes, wanted) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), parts = [];
  for (let at = 8; at < bytes.length; at += 12 + view.getUint32(at)) {
    const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (name === wanted) parts.push(bytes.subarray(at + 8, at + 8 + view.getUint32(at)));
  }
  return Buffer.concat(parts);
}

function decodePng(bytes) {
  const header = chunksOf(bytes, 'IHDR');
  const width = header.readUInt32BE(0), height = header.readUInt32BE(4);
  const [bits, colour, , , interlaced] = header.subarray(8);
  if (bits !== 8 || colour !== 2 || interlaced !== 0) throw new Error('a PNG picture: want 8-bit RGB, not interlaced');
  const rows = inflateSync(chunksOf(bytes, 'IDAT')), stride = width * kColours;
  const data = new Uint8Array(width * height * kPageColours).fill(255);
  let above = new Uint8Array(stride);
  for (let y = 0; y < height; ++y) {
    const predict = kPredict[rows[y * (stride + 1)]], row = rows.slice(y * (stride + 1) + 1, (y + 1) * (stride + 1));
    for (let x = 0; x < stride; ++x) row[x] += predict(row[x - kColours] ?? 0, above[x], above[x - kColours] ?? 0);
    for (let x = 0; x < width; ++x)
      data.set(row.subarray(x * kColours, (x + 1) * kColours), (y * width + x) * kPageColours);
    above = row;
  }
  return { width, height, data };
}

export function decodePicture(bytes) {
  return bytes[0] === 0x89 ? decodePng(bytes) : null;
}

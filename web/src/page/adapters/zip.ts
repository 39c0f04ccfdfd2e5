// A zip file of a few files, as they are (stored): the numbers of an adapter do not compress. Source: PKWARE's
// APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
import { SluiceError } from '../../index.ts';

const kLocal = 0x04034b50,
  kCentral = 0x02014b50,
  kEnd = 0x06054b50;
const kVersion = 20; // 2.0
const kUtf8 = 1 << 11;
const kMost = 2 ** 32 - 1; // bytes: larger ones want another form
const kLocalBytes = 30,
  kCentralBytes = 46,
  kEndBytes = 22;

const kCrcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc >>> 0;
});
function crc32(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) crc = kCrcTable[(crc ^ byte) & 255]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

// The fields that both headers of a file have, from the version that reads it to the length of the extra field.
function writeCommon(view: DataView, at: number, name: Uint8Array, bytes: Uint8Array): void {
  const now = new Date();
  const time = (now.getHours() << 11) | (now.getMinutes() << 5) | (now.getSeconds() >> 1);
  const date = ((now.getFullYear() - 1980) << 9) | ((now.getMonth() + 1) << 5) | now.getDate();
  for (const [i, field] of [kVersion, kUtf8, 0, time, date].entries()) view.setUint16(at + 2 * i, field, true);
  for (const [i, field] of [crc32(bytes), bytes.length, bytes.length].entries()) view.setUint32(at + 10 + 4 * i, field, true);
  view.setUint16(at + 22, name.length, true);
}

export async function zip(files: { name: string; blob: Blob }[]): Promise<Blob> {
  const parts: (Uint8Array<ArrayBuffer> | DataView<ArrayBuffer>)[] = [];
  const central: typeof parts = [];
  let offset = 0;
  for (const file of files) {
    const name = new TextEncoder().encode(file.name);
    const bytes = new Uint8Array(await file.blob.arrayBuffer());
    const local = new DataView(new ArrayBuffer(kLocalBytes));
    local.setUint32(0, kLocal, true);
    writeCommon(local, 4, name, bytes);
    const entry = new DataView(new ArrayBuffer(kCentralBytes));
    entry.setUint32(0, kCentral, true);
    entry.setUint16(4, kVersion, true);
    writeCommon(entry, 6, name, bytes);
    entry.setUint32(42, offset, true);
    parts.push(local, name, bytes);
    central.push(entry, name);
    offset += kLocalBytes + name.length + bytes.length;
  }
  const directory = central.reduce((sum, part) => sum + part.byteLength, 0);
  if (offset + directory > kMost) throw new SluiceError('storage', 'the adapter is larger than 4 GB: a zip file has no room for it');
  const end = new DataView(new ArrayBuffer(kEndBytes));
  end.setUint32(0, kEnd, true);
  end.setUint16(8, files.length, true);
  end.setUint16(10, files.length, true);
  end.setUint32(12, directory, true);
  end.setUint32(16, offset, true);
  return new Blob([...parts, ...central, end], { type: 'application/zip' });
}

// Picked files into the page's storage, piece by piece, so that they are there after a reload. Worker only.
import { aborted, formatBytes, SluiceError } from './errors.ts';
import type { LoadProgress } from './protocol.ts';
import { flush, idOf, isQuota, lockOf, ModelFolder, storageLeft, writeAll } from './storage.ts';
import type { ModelNote } from './storage.ts';

const kPiece = 8 << 20; // bytes

export const nameOfFiles = (files: File[]): string => {
  const folder = files[0]?.webkitRelativePath.split('/')[0];
  return files.length > 1 && folder ? folder : (files[0]?.name ?? 'model');
};

// The id of the model, which is complete then. The same files picked again are not copied again.
export async function copyFiles(
  files: File[],
  onProgress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<string> {
  const name = nameOfFiles(files);
  const id = await idOf(name, files.map((file) => `${file.name} ${file.size} ${file.lastModified}`).join('\n'));
  if ((await (await ModelFolder.open(id))?.note())?.complete) return id;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  try {
    await navigator.locks.request(lockOf(id), { signal }, async () => {
      const left = await storageLeft();
      if (left !== null && total > left) throw new DOMException('', 'QuotaExceededError');
      await copyAll(id, name, files, signal, (loaded) => onProgress({ stage: 'copying', loaded, total }));
    });
  } catch (error) {
    if (signal.aborted) throw aborted();
    if (!isQuota(error)) throw error;
    const left = await storageLeft();
    const room = left === null || left >= total ? 'is full' : `has ${formatBytes(left)} left`;
    throw new SluiceError(
      'quota',
      `${name}: its copy needs ${formatBytes(total)}, and this page's storage ${room}: use the file without a copy, or delete a model`,
    );
  }
  return id;
}

async function copyAll(
  id: string,
  name: string,
  files: File[],
  signal: AbortSignal,
  told: (loaded: number) => void,
): Promise<void> {
  const folder = await ModelFolder.create(id);
  const note: ModelNote = {
    name,
    url: null,
    etag: null,
    modified: null,
    sha256: null,
    hash: null,
    complete: false,
    files: files.map((file) => ({ name: file.name, bytes: file.size, done: 0 })),
  };
  await folder.writeNote(note);
  let loaded = 0;
  for (const [i, file] of files.entries()) {
    const handle = await (await folder.file(file.name, true)).createSyncAccessHandle();
    try {
      handle.truncate(0);
      for (let at = 0; at < file.size; at += kPiece) {
        if (signal.aborted) throw aborted();
        const piece = new Uint8Array(await file.slice(at, at + kPiece).arrayBuffer());
        writeAll(handle, piece, at);
        told((loaded += piece.length));
      }
      flush(handle, file.size);
    } finally {
      handle.close();
    }
    note.files[i]!.done = file.size;
  }
  note.complete = true;
  await folder.writeNote(note);
}

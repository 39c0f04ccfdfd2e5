// Models in the page's own storage (the origin private file system): one folder a model, with its files and a note,
// model.json, that says where they came from and how much of them is there.
//
// Who writes a model holds its lock alone, who reads it shares it, in all tabs of the page; so a model is downloaded once
// and not deleted under a reader. Writing needs a dedicated worker; listing and deleting work in the page, too.
import { SluiceError } from './errors.ts';

const kFolder = 'models';
const kNote = 'model.json';
const kNotePadding = 1024; // bytes

export interface NotedFile {
  name: string;
  bytes: number | null; // of the whole; null: not known yet
  done: number; // bytes that are there
}

export interface ModelNote {
  name: string; // for people
  url: string | null; // null: a file that was picked
  etag: string | null;
  modified: string | null;
  sha256: string | null; // that was asked for
  hash: string | null; // the digest's state after `done` bytes, base64
  complete: boolean;
  files: NotedFile[];
  towersOf?: string | null; // the model's id, where this is a file of towers that came with it
}

// A model as the page lists it.
export interface StoredModel {
  id: string;
  name: string;
  url: string | null;
  bytes: number; // that are there
  total: number | null; // of the whole
  complete: boolean;
}

export const lockOf = (id: string): string => `sluice:${id}`;

async function folder(create: boolean): Promise<FileSystemDirectoryHandle | null> {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(kFolder, { create });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'NotFoundError') return null;
    throw new SluiceError('storage', `this browser gives the page no storage for models: ${sentenceOf(error)}`);
  }
}

const sentenceOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest).subarray(0, 5), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// The same source has the same id in every tab: readable, and safe as a file's name.
export async function idOf(name: string, source: string): Promise<string> {
  const readable = name
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, 80);
  return `${readable}-${await hex(source)}`;
}

export class ModelFolder {
  private constructor(
    readonly id: string,
    private readonly handle: FileSystemDirectoryHandle,
  ) {}

  static async open(id: string): Promise<ModelFolder | null> {
    try {
      const models = await folder(false);
      return models && new ModelFolder(id, await models.getDirectoryHandle(id));
    } catch (error) {
      if (error instanceof DOMException && error.name === 'NotFoundError') return null;
      throw error;
    }
  }
  static async create(id: string): Promise<ModelFolder> {
    const models = await folder(true);
    if (models === null) throw new SluiceError('storage', 'this browser gives the page no storage for models');
    return new ModelFolder(id, await models.getDirectoryHandle(id, { create: true }));
  }

  // null: there is none, or it was being written when the tab ended.
  async note(): Promise<ModelNote | null> {
    try {
      const file = await (await this.handle.getFileHandle(kNote)).getFile();
      return JSON.parse(await file.text()) as ModelNote;
    } catch {
      return null;
    }
  }
  async file(name: string, create = false): Promise<FileSystemFileHandle> {
    return this.handle.getFileHandle(name, { create });
  }
  // For whom holds the lock alone.
  async writeNote(note: ModelNote): Promise<void> {
    const handle = await (await this.file(kNote, true)).createSyncAccessHandle();
    try {
      // Padded, so that it can be written again where there is no more room.
      const text = JSON.stringify(note);
      const bytes = new TextEncoder().encode(text + ' '.repeat(kNotePadding - (text.length % kNotePadding)));
      writeAll(handle, bytes, 0);
      handle.truncate(bytes.length);
      flush(handle, bytes.length);
    } finally {
      handle.close();
    }
  }
}

// A full storage shows as an exception or as fewer bytes written, by browser.
export function writeAll(handle: FileSystemSyncAccessHandle, bytes: Uint8Array<ArrayBuffer>, at: number): void {
  for (let done = 0; done < bytes.length;) {
    const written = handle.write(bytes.subarray(done), { at: at + done });
    if (written <= 0) throw new DOMException('no bytes were written', 'QuotaExceededError');
    done += written;
  }
}

// Some browsers find only now that there is no room, and cut the file without a word.
export function flush(handle: FileSystemSyncAccessHandle, bytes: number): void {
  handle.flush();
  if (handle.getSize() < bytes) throw new DOMException('the file was cut', 'QuotaExceededError');
}

export const isQuota = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'QuotaExceededError';

// Bytes the browser still has for this page; null when it does not say.
export async function storageLeft(): Promise<number | null> {
  const { quota, usage } = await navigator.storage.estimate();
  return quota === undefined || usage === undefined ? null : Math.max(quota - usage, 0);
}

async function* notes(): AsyncGenerator<[id: string, note: ModelNote | null]> {
  const models = await folder(false);
  if (models === null) return;
  for await (const id of models.keys()) yield [id, (await (await ModelFolder.open(id))?.note()) ?? null];
}

// Of the whole file of towers that came with a model; null: there is none.
export async function towersOf(model: string): Promise<string | null> {
  for await (const [id, note] of notes()) if (note?.towersOf === model && note.complete) return id;
  return null;
}

// Towers are a part of their model.
export async function listModels(): Promise<StoredModel[]> {
  const listed: StoredModel[] = [];
  for await (const [id, note] of notes()) {
    if (note?.towersOf) continue;
    const files = note?.files ?? [];
    if (!note?.complete && files.every(({ done }) => done === 0)) continue; // it has just begun, or never came
    listed.push({
      id,
      name: note?.name ?? id,
      url: note?.url ?? null,
      bytes: files.reduce((sum, file) => sum + file.done, 0),
      total: files.some((file) => file.bytes === null) ? null : files.reduce((sum, file) => sum + (file.bytes ?? 0), 0),
      complete: note?.complete ?? false,
    });
  }
  return listed.sort((a, b) => a.name.localeCompare(b.name));
}

export async function deleteModel(id: string): Promise<void> {
  await deleteFolder(id);
  for await (const [other, note] of notes()) if (note?.towersOf === id) await deleteFolder(other);
}

async function deleteFolder(id: string): Promise<void> {
  await navigator.locks.request(lockOf(id), { ifAvailable: true }, async (lock) => {
    if (lock === null)
      throw new SluiceError('storage', `${id}: is in use in this tab or another: close it there first`);
    await removeFolder(id);
  });
}

// For whom holds the lock alone.
export async function removeFolder(id: string): Promise<void> {
  const models = await folder(false);
  try {
    await models?.removeEntry(id, { recursive: true });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'NotFoundError') return;
    throw new SluiceError('storage', `${id}: cannot be deleted: ${sentenceOf(error)}`);
  }
}

// Held until the returned function is called.
export async function shareLock(id: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    navigator.locks
      .request(lockOf(id), { mode: 'shared' }, () => new Promise<void>((release) => resolve(release)))
      .catch(reject);
  });
}

// Models from an address into the page's storage: in ranges, so that what an interruption leaves is gone on from, by this
// tab, the next one or tomorrow's. Worker only.
//
// Several tabs that want one model agree by its lock: one downloads, the others hear of its progress and take over when
// it ends early. What the server says of the file (length, ETag, Last-Modified) must stay; when it does not, the
// download begins again. RFC 9110, sections 8.8 (validators) and 14 (ranges).
import { createSHA256 } from 'hash-wasm';
import type { IHasher } from 'hash-wasm/dist/lib/WASMInterface.js';
import { aborted, formatBytes, SluiceError } from './errors.ts';
import type { LoadProgress } from './protocol.ts';
import { flush, idOf, isQuota, lockOf, ModelFolder, removeFolder, storageLeft, writeAll } from './storage.ts';
import type { ModelNote, NotedFile } from './storage.ts';

const kPiece = 8 << 20; // bytes of a range, and how much a tab that ends at once has to fetch again
const kTries = 6; // without a byte of progress
const kFirstTries = 2; // of a server that has never answered: the address is wrong, or there is no network
const kFirstWait = 250; // ms; doubled from try to try
const kRestarts = 3; // of a file that changes on the server while it is fetched

const kMagic = 'GGUF';
const kShownBytes = 512;
const kOtherKinds: [RegExp, string][] = [
  [/^\s*(?:<!doctype html|<html)/i, 'a web page'],
  [/^version https:\/\/git-lfs/, 'a Git LFS pointer, which stands for a file'],
  [/^\s*[[{]/, 'a JSON document'],
  [/^PK\x03\x04/, 'a ZIP archive'],
  [/^[\s\S]{8}\{"/, 'safetensors, which are opened as picked files'],
];

export interface DownloadRequest {
  url: string;
  sha256: string | null; // hex
  towersOf?: string; // the model's id, where these are its towers
  onProgress: (progress: LoadProgress) => void;
  signal: AbortSignal;
}

interface Heard {
  id: string;
  loaded: number;
  total: number | null;
}

const nameOf = (url: string): string => decodeURIComponent(new URL(url).pathname.split('/').pop() || 'model');

// The id of the model, which is complete then.
export async function download(request: DownloadRequest): Promise<string> {
  const { url, towersOf } = request;
  const id = await idOf(nameOf(url), towersOf === undefined ? url : `${url} ${towersOf}`);
  if ((await (await ModelFolder.open(id))?.note())?.complete) return checked(id, request);
  const channel = new BroadcastChannel('sluice-downloads');
  try {
    channel.onmessage = ({ data }: MessageEvent<Heard>) => {
      if (data.id === id) request.onProgress({ stage: 'waiting', loaded: data.loaded, total: data.total });
    };
    await sayWaiting(id, request);
    await navigator.locks.request(lockOf(id), { signal: request.signal }, async () => {
      channel.onmessage = null;
      await new Fetching(id, request, channel).run();
    });
  } catch (error) {
    throw request.signal.aborted ? aborted() : error;
  } finally {
    channel.close();
  }
  return id;
}

async function sayWaiting(id: string, { onProgress }: DownloadRequest): Promise<void> {
  const { held = [] } = await navigator.locks.query();
  if (!held.some(({ name }) => name === lockOf(id))) return;
  const file = (await (await ModelFolder.open(id))?.note())?.files[0];
  onProgress({ stage: 'waiting', loaded: file?.done ?? 0, total: file?.bytes ?? null });
}

// A model that is there already, and was downloaded with another digest in mind or none, is not taken for that one.
async function checked(id: string, { url, sha256 }: DownloadRequest): Promise<string> {
  const note = await (await ModelFolder.open(id))?.note();
  if (sha256 === null || note?.sha256 === sha256.toLowerCase()) return id;
  throw new SluiceError('digest', `${nameOf(url)}: is stored, but not held to the SHA-256 ${sha256}: delete it first`);
}

class Fetching {
  private readonly name: string;
  private note: ModelNote;
  private file: NotedFile; // the note's only one
  private folder!: ModelFolder;
  private handle!: FileSystemSyncAccessHandle;
  private hasher: IHasher | null = null;
  private ranged = true; // the server is asked for ranges
  private answered = false;
  private restarts = 0;
  private telling: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly id: string,
    private readonly request: DownloadRequest,
    private readonly channel: BroadcastChannel,
  ) {
    this.name = nameOf(request.url);
    this.file = { name: this.name, bytes: null, done: 0 };
    const { url, towersOf = null } = request;
    const unknown = { etag: null, modified: null, sha256: null, hash: null };
    this.note = { name: this.name, url, ...unknown, complete: false, files: [this.file], towersOf };
  }

  async run(): Promise<void> {
    let failed = false;
    try {
      if (!(await this.open())) return;
      await this.fetchAll();
      await this.finish();
    } catch (error) {
      failed = true;
      await this.leave();
      throw isQuota(error) ? await this.quotaError() : error;
    } finally {
      clearTimeout(this.telling ?? undefined);
      this.handle?.close(); // missing where there was no room for it
      // Nothing came that could be gone on from.
      if (failed && this.file.done === 0) await removeFolder(this.id).catch(() => {});
    }
  }

  // False: the tab that had the lock before has completed it.
  private async open(): Promise<boolean> {
    this.folder = await ModelFolder.create(this.id);
    const noted = await this.folder.note();
    if (noted?.complete) return false;
    const sha256 = this.request.sha256?.toLowerCase() ?? noted?.sha256 ?? null;
    this.hasher = sha256 === null ? null : await createSHA256();
    this.note = noted ?? { ...this.note, sha256 };
    this.note.files[0] ??= this.file;
    this.file = this.note.files[0];
    this.handle = await (await this.folder.file(this.name, true)).createSyncAccessHandle();
    this.goOn(sha256);
    await this.keepNote();
    return true;
  }

  // From where the note says, if the file and the digest's state are what it says.
  private goOn(sha256: string | null): void {
    const { done } = this.file;
    const hashed = sha256 === null || (this.note.sha256 === sha256 && (this.note.hash !== null || done === 0));
    this.note.sha256 = sha256;
    if (this.handle.getSize() < done || !hashed) return this.restart();
    this.handle.truncate(done);
    this.hasher?.init();
    if (this.hasher && this.note.hash !== null) this.hasher.load(fromBase64(this.note.hash));
  }

  private restart(): void {
    this.handle.truncate(0);
    Object.assign(this.file, { bytes: null, done: 0 });
    Object.assign(this.note, { etag: null, modified: null, hash: null });
    this.hasher?.init();
  }

  private async fetchAll(): Promise<void> {
    let tries = 0,
      most = this.file.done;
    while (this.file.bytes === null || this.file.done < this.file.bytes) {
      let failure: unknown = null;
      try {
        await this.fetchPiece();
      } catch (error) {
        if (this.request.signal.aborted) throw aborted();
        if (error instanceof SluiceError || isQuota(error)) throw error;
        failure = error;
      }
      this.putAway();
      await this.keepNote();
      tries = this.file.done > most ? 0 : tries + 1;
      most = Math.max(most, this.file.done);
      if (tries >= (this.answered || this.file.done > 0 ? kTries : kFirstTries)) throw this.brokenError(failure);
      if (failure !== null) await pause(kFirstWait * 2 ** tries, this.request.signal);
    }
  }

  // Where the storage is full, what it has taken counts; the digest's state is of more, so it begins again.
  private putAway(): void {
    try {
      flush(this.handle, this.file.done);
    } catch (error) {
      if (this.hasher) this.restart();
      else this.file.done = this.handle.getSize();
      throw error;
    }
  }

  private async fetchPiece(): Promise<void> {
    const { done, bytes } = this.file;
    const end = Math.min(done + kPiece, bytes ?? Infinity);
    const { url, signal } = this.request;
    const headers: HeadersInit = this.ranged ? { Range: `bytes=${done}-${end - 1}` } : {};
    const response = await fetch(url, { headers, cache: 'no-store', signal });
    this.answered = true;
    if (response.status === 416 && done > 0) return this.changed(); // it is shorter now
    if (!response.ok) this.refused(response.status);
    const total = totalOf(response);
    if (response.status === 206 && total === null) {
      this.ranged = false; // another origin, which does not let the page see how long the file is
      return response.body?.cancel();
    }
    const same = this.file.bytes === null || (this.file.bytes === total && this.sameValidators(response));
    if (!same) {
      await response.body?.cancel();
      return this.changed();
    }
    if (response.status === 200 && done > 0) this.restart(); // a server that knows no ranges gives all of it
    if (this.file.bytes === null) await this.begin(response, total);
    await this.take(response, response.status === 206 ? end : Infinity);
  }

  private sameValidators(response: Response): boolean {
    const { etag, modified } = this.note;
    if (etag !== null) return response.headers.get('ETag') === etag;
    return modified === null || response.headers.get('Last-Modified') === modified;
  }

  private changed(): void {
    if (++this.restarts > kRestarts) {
      throw new SluiceError('changed', `${this.name}: the file on the server keeps changing: try again later`);
    }
    this.restart();
  }

  private refused(status: number): never {
    const sentence = `${this.name}: the server answers ${status}`;
    if (status === 429 || status >= 500) throw new Error(sentence); // may pass
    throw new SluiceError('network', status === 404 ? `${sentence}: there is no such file` : sentence);
  }

  private async begin(response: Response, total: number | null): Promise<void> {
    this.note.etag = response.headers.get('ETag');
    this.note.modified = response.headers.get('Last-Modified');
    this.file.bytes = total;
    const left = await storageLeft();
    if (total !== null && left !== null && total - this.file.done > left) {
      await response.body?.cancel();
      throw await this.quotaError();
    }
  }

  private async take(response: Response, end: number): Promise<void> {
    const reader = response.body!.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (this.file.done + value.length > end) {
        throw new SluiceError('network', `${this.name}: the server sends more than the range that was asked for`);
      }
      if (this.file.done === 0) this.checkBeginning(value);
      writeAll(this.handle, value, this.file.done);
      this.hasher?.update(value);
      this.file.done += value.length;
      this.tell();
    }
    this.file.bytes ??= this.file.done; // without a length the end is where the server ends
  }

  // So that nobody waits for all of what is no model.
  private checkBeginning(bytes: Uint8Array): void {
    const text = new TextDecoder('latin1').decode(bytes.subarray(0, kShownBytes));
    if (bytes.length < kMagic.length || text.startsWith(kMagic)) return;
    const kind = kOtherKinds.find(([pattern]) => pattern.test(text))?.[1] ?? 'another kind of file';
    throw new SluiceError('model', `${this.name}: not a GGUF file but ${kind}: want the address of the file itself`);
  }

  // Some ten times a second, and what came last in any case.
  private tell(): void {
    this.telling ??= setTimeout(() => {
      this.telling = null;
      const { done: loaded, bytes: total } = this.file;
      this.request.onProgress({ stage: 'downloading', loaded, total });
      this.channel.postMessage({ id: this.id, loaded, total } satisfies Heard);
    }, 100);
  }

  private async finish(): Promise<void> {
    const digest = this.hasher?.digest('hex') ?? null;
    if (digest !== this.note.sha256) {
      const wanted = this.note.sha256;
      this.restart();
      throw new SluiceError('digest', `${this.name}: its SHA-256 is ${digest}: want ${wanted}`);
    }
    this.note.hash = null;
    this.note.complete = true;
    await this.folder.writeNote(this.note);
  }

  private async keepNote(): Promise<void> {
    this.note.hash = this.hasher ? toBase64(this.hasher.save()) : null;
    await this.folder.writeNote(this.note);
  }

  // What came so far stays, where there is room to say so.
  private async leave(): Promise<void> {
    try {
      this.putAway();
      await this.keepNote();
    } catch {
      // The last note stands; it tells of less.
    }
  }

  private async quotaError(): Promise<SluiceError> {
    const { done, bytes } = this.file;
    const needs = bytes === null ? 'more' : `${formatBytes(bytes - done)} more`;
    const left = await storageLeft();
    const room = left === null || left >= (bytes ?? 0) - done ? 'is full' : `has ${formatBytes(left)} left`;
    return new SluiceError(
      'quota',
      `${this.name}: needs ${needs}, and this page's storage ${room}: delete a model or free space on the disk`,
    );
  }

  private brokenError(error: unknown): SluiceError {
    const { done, bytes } = this.file;
    const why = error instanceof Error && !(error instanceof TypeError) ? ` (${error.message})` : '';
    const got =
      done === 0
        ? 'before anything came'
        : `after ${formatBytes(done)} of ${bytes === null ? 'it' : formatBytes(bytes)}`;
    const isOther = new URL(this.request.url).origin !== location.origin;
    const check = `check the address and the connection${isOther ? ', and whether the server lets pages read it' : ''}`;
    const next = done === 0 ? check : 'try again, and it goes on from there';
    return new SluiceError('network', `${this.name}: the connection failed ${got}${why}: ${next}`);
  }
}

// null: the server does not say, or does not let the page see it.
function totalOf(response: Response): number | null {
  const range = response.headers.get('Content-Range')?.match(/\/(\d+)$/);
  if (range) return Number(range[1]);
  const length = response.headers.get('Content-Length');
  const encoded = response.headers.get('Content-Encoding') !== null; // then it is the length of something else
  return response.status === 200 && length !== null && !encoded ? Number(length) : null;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(aborted())), { once: true });
  });
}

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));
const fromBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

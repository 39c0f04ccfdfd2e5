// Files as the engine reads them: any range, at once. What cannot be read so (a download, say) is stored first.

export interface FileSource {
  readonly size: number;
  /** Fills `target` from `offset` on; returns how many bytes there were. */
  read(offset: number, target: Uint8Array<ArrayBuffer>): number;
  /** Of what was opened for this alone. */
  close?(): void;
}

/** Bytes in the page's memory. */
export class BytesFile implements FileSource {
  readonly size: number;
  readonly #bytes: Uint8Array;

  constructor(bytes: ArrayBuffer | Uint8Array) {
    this.#bytes = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
    this.size = this.#bytes.length;
  }
  read(offset: number, target: Uint8Array<ArrayBuffer>): number {
    const bytes = this.#bytes.subarray(offset, offset + target.length);
    target.set(bytes);
    return bytes.length;
  }
}

/** A file of the page's own storage (OPFS), opened by createSyncAccessHandle(). */
export class HandleFile implements FileSource {
  readonly size: number;
  readonly #handle: FileSystemSyncAccessHandle;

  constructor(handle: FileSystemSyncAccessHandle) {
    this.#handle = handle;
    this.size = handle.getSize();
  }
  read(offset: number, target: Uint8Array<ArrayBuffer>): number {
    return this.#handle.read(target, { at: offset });
  }
  close(): void {
    this.#handle.close();
  }
}

/** A file from a picker, in a worker. */
export class BlobFile implements FileSource {
  readonly size: number;
  readonly #blob: Blob;
  readonly #reader = new FileReaderSync();

  constructor(blob: Blob) {
    this.#blob = blob;
    this.size = blob.size;
  }
  // A file that was changed or removed since it was picked throws, which the engine hears as no bytes.
  read(offset: number, target: Uint8Array<ArrayBuffer>): number {
    const bytes = new Uint8Array(this.#reader.readAsArrayBuffer(this.#blob.slice(offset, offset + target.length)));
    target.set(bytes);
    return bytes.length;
  }
}

/** Files by name, which is a path: "gemma/config.json" lies in the folder "gemma". */
export type FileTable = ReadonlyMap<string, FileSource>;

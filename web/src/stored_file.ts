// A stored model's file as the engine reads it. Worker only.
import { BlobFile, HandleFile } from './engine/files.ts';
import type { FileSource } from './engine/files.ts';

// A file of the page's storage that others may read at the same time. Browsers without shared handles (2026: all but
// Chromium's) would lock other tabs out, so there the file is read as a blob.
export async function openStored(file: FileSystemFileHandle): Promise<FileSource> {
  try {
    // The mode is newer than TypeScript's description of the call.
    const open = file.createSyncAccessHandle.bind(file) as (options: {
      mode: string;
    }) => Promise<FileSystemSyncAccessHandle>;
    const handle = await open({ mode: 'read-only' });
    try {
      handle.truncate(handle.getSize()); // refused by a handle that only reads
    } catch {
      return new HandleFile(handle);
    }
    handle.close();
  } catch {
    // Falls through to the blob, which says what is wrong when it is read.
  }
  return new BlobFile(await file.getFile());
}

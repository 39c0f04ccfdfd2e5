// The conversations in this browser (IndexedDB): a record for each, and one for each of its messages, with its pictures and
// sounds.
//
// Several tabs may write one conversation. Messages have ids of their own and are only added to, so no tab overwrites what
// another has said: two questions at one place become two versions. Other tabs hear of each change.
import { textOf } from '../media.ts';
import { nameFor } from './tree.ts';
import type { ConversationRecord, TreeMessage } from './tree.ts';

const kDatabase = 'sluice';
const kVersion = 1;
const kStores = ['conversations', 'messages'];
const kKeptDeleted = 60_000; // ms in which a deleted conversation can be brought back

// What another tab has changed; conversation null: several.
export interface Change {
  conversation: string | null;
}

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function openDatabase(): Promise<IDBDatabase> {
  const request = indexedDB.open(kDatabase, kVersion);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('conversations', { keyPath: 'id' });
    request.result
      .createObjectStore('messages', { keyPath: ['conversation', 'id'] })
      .createIndex('conversation', 'conversation');
  };
  return settled(request).then((database) => {
    database.onversionchange = () => database.close(); // a newer page wants it
    return database;
  });
}

interface Stores {
  conversations: IDBObjectStore;
  messages: IDBObjectStore;
}

export class ConversationStore {
  private readonly channel = new BroadcastChannel('sluice-conversations');
  private readonly database: Promise<IDBDatabase | null>; // null: the browser keeps nothing, and the page works without

  constructor(missing: (why: unknown) => void) {
    this.database = openDatabase().catch((why: unknown) => (missing(why), null));
  }

  set onChange(heard: (change: Change) => void) {
    this.channel.onmessage = ({ data }: MessageEvent<Change>) => heard(data);
  }

  // Those that are not deleted, the last changed first.
  async list(): Promise<ConversationRecord[]> {
    const all = await this.read([], ({ conversations }) => settled<ConversationRecord[]>(conversations.getAll()));
    return all.filter(({ deleted }) => deleted === null).sort((a, b) => b.changed - a.changed);
  }
  async get(id: string): Promise<ConversationRecord | null> {
    const found = await this.read(undefined, ({ conversations }) =>
      settled<ConversationRecord | undefined>(conversations.get(id)),
    );
    return found === undefined || found.deleted !== null ? null : found;
  }
  messages(id: string): Promise<TreeMessage[]> {
    return this.read([], ({ messages }) => settled<TreeMessage[]>(messages.index('conversation').getAll(id)));
  }
  // The ids of conversations in which a message has that text.
  async withText(text: string): Promise<Set<string>> {
    const wanted = text.toLowerCase();
    const all = await this.read([], ({ messages }) => settled<TreeMessage[]>(messages.getAll()));
    const hits = all.filter(({ role, content }) => textOf({ role, content }).toLowerCase().includes(wanted));
    return new Set(hits.map(({ conversation }) => conversation));
  }

  // Adds the messages or writes them anew; the last one becomes the tip. A question brings back a conversation that another
  // tab has deleted; the rest of an answer does not.
  async put(id: string, added: TreeMessage[]): Promise<void> {
    await this.change(id, async ({ conversations, messages }) => {
      const old = await settled<ConversationRecord | undefined>(conversations.get(id));
      const asks = added.some(({ role }) => role === 'user');
      if (old === undefined && !asks) return;
      for (const message of added) messages.put(message);
      const now = Date.now();
      const first = added[0];
      const name = first === undefined ? '' : nameFor(textOf(first));
      const record = old ?? { id, name: name || 'Picture or sound', created: now, deleted: null };
      conversations.put({ ...record, changed: now, tip: added.at(-1)?.id ?? old?.tip ?? null, deleted: asks ? null : record.deleted });
    });
  }
  // Takes messages back. A conversation without any goes with the last one.
  async remove(id: string, taken: string[], tip: string | null): Promise<void> {
    await this.change(id, async ({ conversations, messages }) => {
      for (const message of taken) messages.delete([id, message]);
      if ((await settled(messages.index('conversation').count(id))) === 0) conversations.delete(id);
      else await update(conversations, id, { tip });
    });
  }
  setTip(id: string, tip: string | null): Promise<void> {
    return this.change(id, ({ conversations }) => update(conversations, id, { tip }));
  }
  rename(id: string, name: string): Promise<void> {
    return this.change(id, ({ conversations }) => update(conversations, id, { name }));
  }
  delete(id: string): Promise<void> {
    return this.change(id, ({ conversations }) => update(conversations, id, { deleted: Date.now() }));
  }
  bringBack(id: string): Promise<void> {
    return this.change(id, ({ conversations }) => update(conversations, id, { deleted: null }));
  }
  // Those that were deleted longer ago than anybody can take back.
  purge(): Promise<void> {
    return this.write(async ({ conversations, messages }) => {
      const all = await settled<ConversationRecord[]>(conversations.getAll());
      for (const { id, deleted } of all) {
        if (deleted === null || Date.now() - deleted < kKeptDeleted) continue;
        conversations.delete(id);
        for (const key of await settled(messages.index('conversation').getAllKeys(id))) messages.delete(key);
      }
    });
  }
  // Of a file: what is here already stays, what is missing is added.
  async merge(records: ConversationRecord[], added: TreeMessage[]): Promise<void> {
    await this.change(null, async ({ conversations, messages }) => {
      for (const message of added) {
        const known = await settled(messages.getKey([message.conversation, message.id]));
        if (known === undefined) messages.put(message);
      }
      for (const record of records) {
        const old = await settled<ConversationRecord | undefined>(conversations.get(record.id));
        conversations.put(old === undefined ? record : { ...old, deleted: null });
      }
    });
  }

  private async change(conversation: string | null, write: (stores: Stores) => Promise<void>): Promise<void> {
    await this.write(write);
    this.channel.postMessage({ conversation } satisfies Change);
  }
  private async read<T>(nothing: T, read: (stores: Stores) => Promise<T>): Promise<T> {
    const database = await this.database;
    return database === null ? nothing : read(storesOf(database.transaction(kStores, 'readonly')));
  }
  // Whole or not at all.
  private async write(write: (stores: Stores) => Promise<void>): Promise<void> {
    const transaction = (await this.database)?.transaction(kStores, 'readwrite');
    if (transaction === undefined) return;
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error('the change was given up'));
      write(storesOf(transaction)).catch((error: unknown) => {
        reject(error);
        transaction.abort();
      });
    });
  }
}

const storesOf = (transaction: IDBTransaction): Stores => ({
  conversations: transaction.objectStore('conversations'),
  messages: transaction.objectStore('messages'),
});

async function update(conversations: IDBObjectStore, id: string, change: Partial<ConversationRecord>): Promise<void> {
  const old = await settled<ConversationRecord | undefined>(conversations.get(id));
  if (old !== undefined) conversations.put({ ...old, ...change });
}

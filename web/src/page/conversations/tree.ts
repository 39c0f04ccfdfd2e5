// A conversation as a tree of messages: a question that is edited and an answer that is made again are further versions
// beside the old one, with the same parent. What is shown is the path from the root to the tip.
import type { Message, Part, ToolCall } from '../../index.ts';

export interface TreeMessage {
  conversation: string; // its id
  id: string;
  parent: string | null; // null: the conversation begins with it
  role: 'user' | 'assistant';
  content: string | Part[];
  thinking: string;
  thinkingSeconds?: number; // how long that took
  calls?: ToolCall[]; // of tools, that the answer makes
  finished: boolean; // false: an answer that is being written, or that ended with its tab
  note: string; // speeds and counts of an answer, for people
  created: number; // ms since 1970
}

export interface ConversationRecord {
  id: string;
  name: string;
  created: number; // ms since 1970
  changed: number;
  tip: string | null; // the id of the last message that is shown; null: there is none
  deleted: number | null; // when; it can be brought back for a while
}

const kLongestName = 60; // characters

// Random, so that two tabs never choose the same. crypto.randomUUID() is missing where a page is not secure.
export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

// The beginning of the first question, in one line.
export function nameFor(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= kLongestName ? line : `${line.slice(0, kLongestName - 1).trimEnd()}…`;
}

const byAge = (a: TreeMessage, b: TreeMessage): number => a.created - b.created || a.id.localeCompare(b.id);

export class MessageTree {
  private readonly messages = new Map<string, TreeMessage>();

  constructor(messages: Iterable<TreeMessage> = []) {
    for (const message of messages) this.set(message);
  }

  set(message: TreeMessage): void {
    this.messages.set(message.id, message);
  }
  remove(id: string): void {
    this.messages.delete(id);
  }
  get(id: string | null): TreeMessage | undefined {
    return id === null ? undefined : this.messages.get(id);
  }
  get size(): number {
    return this.messages.size;
  }
  [Symbol.iterator](): IterableIterator<TreeMessage> {
    return this.messages.values();
  }

  // From the first message to `tip`. A parent that is missing or met twice, as a file may have it, ends the way up.
  path(tip: string | null): TreeMessage[] {
    const path: TreeMessage[] = [];
    const seen = new Set<string>();
    for (let at = this.get(tip); at !== undefined && !seen.has(at.id); at = this.get(at.parent)) {
      seen.add(at.id);
      path.push(at);
    }
    return path.reverse();
  }
  isAbove(above: string | null, tip: string | null): boolean {
    return above === null || this.path(tip).some(({ id }) => id === above);
  }
  // Messages with one parent, oldest first.
  childrenOf(parent: string | null): TreeMessage[] {
    return [...this.messages.values()].filter((one) => one.parent === parent).sort(byAge);
  }
  versionsOf(message: TreeMessage): TreeMessage[] {
    return this.childrenOf(message.parent).filter(({ role }) => role === message.role);
  }
  // The end of the path that goes on from `id` with the newest version each time.
  newestBelow(id: string | null): string | null {
    const seen = new Set<string | null>();
    for (let at = id; ; ) {
      const next = this.childrenOf(at).at(-1);
      if (next === undefined || seen.has(at)) return at;
      seen.add(at);
      at = next.id;
    }
  }
}

export const messagesOf = (path: TreeMessage[]): Message[] => 
  path.map(({ role, content, calls = [] }) => ({ role, content, ...(calls.length > 0 && { toolCalls: calls }) }));

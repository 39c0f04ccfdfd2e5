// The conversation that this tab shows: its messages, and which versions of them. What is said goes to the store at once; one
// that nothing was said in is not kept.
import { mediaOf, SluiceError } from '../../index.ts';
import type { Part } from '../../index.ts';
import { release, textOf } from '../media.ts';
import { forgetOldMessages, oldMessages, recallTab, rememberTab } from '../memory.ts';
import type { ConversationStore } from './store.ts';
import { MessageTree, newId } from './tree.ts';
import type { TreeMessage } from './tree.ts';

function notKept(error: unknown): SluiceError {
  const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
  const why = isFull ? 'the storage of this page is full: delete a conversation or a model' : String(error);
  return new SluiceError('storage', `this conversation is not kept: ${why}`);
}

export class CurrentConversation {
  id = newId();
  tip: string | null = null;
  private tree = new MessageTree();
  private kept = Promise.resolve(); // what is being written, in its order

  constructor(
    private readonly store: ConversationStore,
    private readonly failed: (error: unknown) => void,
  ) {}

  get path(): TreeMessage[] {
    return this.tree.path(this.tip);
  }
  get isEmpty(): boolean {
    return this.tree.size === 0;
  }
  versionsOf(message: TreeMessage): TreeMessage[] {
    return this.tree.versionsOf(message);
  }

  start(): void {
    this.show(newId(), new MessageTree(), null);
  }
  // False: it is no longer there.
  async open(id: string): Promise<boolean> {
    const record = await this.store.get(id);
    if (record === null) return false;
    const tree = new MessageTree(await this.store.messages(id));
    this.show(id, tree, tree.get(record.tip) === undefined ? tree.newestBelow(null) : record.tip);
    return true;
  }
  // The tab's own one, else the last that was changed.
  async openLast(): Promise<void> {
    await this.takeOver();
    const own = recallTab();
    if (own !== null && (await this.open(own))) return;
    const [newest] = own === null ? await this.store.list() : [];
    if (newest !== undefined) await this.open(newest.id);
  }

  // A question behind what is shown; beside a last one that got no answer.
  ask(content: string | Part[]): TreeMessage {
    const last = this.tree.get(this.tip);
    return this.add('user', content, last?.role === 'user' ? last.parent : this.tip);
  }
  // The question in other words: a version beside it.
  askInstead(question: TreeMessage, content: string | Part[]): TreeMessage {
    return this.add('user', content, question.parent);
  }
  // An answer to be written, a version beside those that there are.
  answer(question: TreeMessage): TreeMessage {
    return { ...this.add('assistant', '', question.id), finished: false };
  }
  get lastQuestion(): TreeMessage | undefined {
    return this.path.findLast(({ role }) => role === 'user');
  }

  // Messages of one conversation as they are now; the last one is the end of what is shown of it.
  keep(...messages: TreeMessage[]): void {
    const id = messages[0]?.conversation ?? this.id;
    if (id === this.id) for (const message of messages) this.tree.set(message);
    const copies = messages.map((message) => ({ ...message })); // what is written later is as it was now
    this.write((store) => store.put(id, copies));
  }
  takeBack(messages: TreeMessage[], tip: string | null): void {
    const id = messages[0]?.conversation ?? this.id;
    const ids = messages.map((message) => message.id);
    if (id === this.id) {
      for (const taken of ids) this.tree.remove(taken);
      this.tip = tip;
    }
    this.write((store) => store.remove(id, ids, tip));
  }
  showVersion(message: TreeMessage): void {
    this.tip = this.tree.newestBelow(message.id);
    const { id, tip } = this;
    this.write((store) => store.setTip(id, tip));
  }

  // What another tab has said meanwhile. Resolves to whether something is new.
  async refresh(): Promise<boolean> {
    const { id, store } = this;
    const record = await store.get(id);
    const messages = await store.messages(id);
    if (record === null || id !== this.id) return false;
    // Known messages stay as they are, because their pictures are prepared.
    const news = messages.filter((one) => !this.tree.get(one.id)?.finished);
    for (const one of news) this.tree.set(one);
    if (this.tree.isAbove(this.tip, record.tip)) this.tip = record.tip;
    return news.length > 0;
  }
  // Resolves once all that was said is written.
  written(): Promise<void> {
    return this.kept;
  }

  private add(role: TreeMessage['role'], content: string | Part[], parent: string | null): TreeMessage {
    const id = newId();
    const message = { conversation: this.id, id, parent, role, content, thinking: '', finished: true, note: '', created: Date.now() };
    this.tree.set(message);
    this.tip = id;
    rememberTab(this.id);
    return message;
  }
  private show(id: string, tree: MessageTree, tip: string | null): void {
    release([...this.tree].flatMap(mediaOf));
    [this.id, this.tree, this.tip] = [id, tree, tip];
    rememberTab(id);
  }
  private write(write: (store: ConversationStore) => Promise<void>): void {
    this.kept = this.kept.then(() => write(this.store)).catch((error: unknown) => this.failed(notKept(error)));
  }

  // The only conversation of earlier versions of this page.
  private async takeOver(): Promise<void> {
    const said = oldMessages();
    if (said.length === 0) return;
    this.start();
    for (const message of said)
      this.keep(this.add(message.role === 'user' ? 'user' : 'assistant', textOf(message), this.tip));
    await this.kept;
    forgetOldMessages();
  }
}

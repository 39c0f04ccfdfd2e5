// The page: conversations with one model at a time. All that computes is in the package.
import { mediaOf, Server, Sluice, SluiceError } from '../index.ts';
import { AdapterPanel } from './adapters/panel.ts';
import { Answering } from './answering.ts';
import { Attachments } from './attachments.ts';
import { Composer } from './composer.ts';
import { CurrentConversation } from './conversations/current.ts';
import { ConversationList } from './conversations/list.ts';
import { ConversationStore } from './conversations/store.ts';
import { byId } from './dom.ts';
import { listenToDrops } from './drops.ts';
import { keptKey, KeyDialog } from './key.ts';
import { recall, remember } from './memory.ts';
import { MessageList } from './messages.ts';
import { Models } from './models.ts';
import { OpenModel } from './open_model.ts';
import { SettingsForm } from './settings.ts';
import { showStats } from './stats.ts';
import type { Seen } from './stats.ts';
import { announce, sentenceOf, showError } from './status.ts';
import { loadMarkdown } from './text/view.ts';
import { followTheme } from './theme.ts';

followTheme();

const store = new ConversationStore((why) => {
  const sentence = `conversations are not kept: this browser gives the page no storage (${sentenceOf(why)})`;
  showError(new SluiceError('storage', sentence));
});
const conversation = new CurrentConversation(store, showError);

const settings = new SettingsForm(() => {});
let server: Server | null = null; // beside this page
const keys = new KeyDialog((key) => {
  if (server !== null) server.key = key;
  opened.again();
});
const opened = new OpenModel({
  settings: () => settings.values,
  server: () => server,
  wantsKey: (error) => keys.ask(server?.key ? error : null),
  closing: () => answering.stop(),
  changed: showModel,
});
const models = new Models({
  choose: (choice) => void opened.load(choice),
  release: (id) => opened.engine?.facts.id === id && opened.close(),
  server: () => server,
  failed: showError,
});

// ---- what is said

const messages = new MessageList({
  regenerate: () => answering.again(),
  edit: (question, content) => answering.edit(question, content),
  versionsOf: (message) => conversation.versionsOf(message),
  showVersion: (message) => {
    conversation.showVersion(message);
    showConversation();
  },
});
const answering = new Answering(conversation, messages, {
  model: () => (adapters.isTeaching || adapters.isAsking ? null : opened.model),
  settings: () => settings.values,
  busy: () => {
    showPrompt();
    adapters.show();
    if (answering.isBusy) return messages.hideActions();
    messages.offerActions(opened.model !== null);
    void conversations.draw();
    keepInView(false);
    if (!document.activeElement?.closest('form.edit')) composer.focus(); // a refused edit goes on
  },
  grown: keepInView,
  seen: (seen) => void showSeen(seen),
  failed: (error) => opened.fail(error),
});
const attachments = new Attachments({
  prepare: (part) =>
    opened.model?.prepare(part) ?? Promise.reject(new SluiceError('model', 'no model is open: choose one first')),
  changed: () => {
    showPrompt();
    keepInView(false); // the prompt has grown or shrunk
  },
  failed: showError,
  announce,
});
const composer = new Composer(attachments, {
  send: (content, taken) => answering.say(content, taken),
  stop: () => answering.stop(),
});
const adapters = new AdapterPanel({
  model: () => opened.engine,
  isAnswering: () => answering.isBusy,
  system: () => settings.values.system,
  busy: showPrompt,
  lost: (error) => opened.fail(error),
});

// ---- conversations

const conversations = new ConversationList(store, {
  open: (id) => void change(() => conversation.open(id)),
  gone: () => void change(() => conversation.start()),
  isShown: (id) => id === conversation.id,
  failed: showError,
  announce,
});
listenToDrops({
  media: (files) => attachments.add(files),
  model: (files) => models.openFiles(files),
  adapter: (files) => {
    if (opened.engine !== null) adapters.add(files);
    else showError(new SluiceError('model', 'an adapter changes a model, and none is open in this page: choose one first'));
  },
  conversations: (file) => conversations.import(file),
  failed: showError,
});
byId('new-chat').onclick = () => void change(() => conversation.start());

// Shows another conversation; the answer that is being made ends and is kept as it is.
async function change(show: () => unknown): Promise<void> {
  answering.stop();
  await show();
  showConversation();
  void conversations.draw();
  composer.focus();
}
function showConversation(): void {
  messages.show(conversation.path, opened.model !== null && !answering.isBusy);
  showModel();
  keepInView(true);
}
store.onChange = ({ conversation: id }) => {
  void conversations.draw();
  if ((id !== null && id !== conversation.id) || answering.isBusy) return;
  void conversation.refresh().then((isNew) => {
    if (!isNew || answering.isBusy || messages.isEditing) return;
    messages.show(conversation.path, opened.model !== null);
    keepInView(false);
  }, showError);
};

// ---- the model

function showModel(): void {
  const facts = opened.model?.facts ?? null;
  byId('model-name').textContent = facts?.name ?? 'Choose a model';
  const chip = byId('model-device');
  chip.hidden = facts === null;
  chip.textContent = facts === null ? '' : { webgpu: 'WebGPU', cpu: 'CPU', server: 'Server' }[facts.device];
  chip.title = facts?.deviceName ?? '';
  const notices: string[] = [];
  if (facts?.whyNotGpu) {
    const why = sentenceOf(facts.whyNotGpu).slice(0, -1);
    notices.push(`${why}: the processor computes instead (WebAssembly SIMD), more slowly.`);
  }
  if (facts && !facts.chat)
    notices.push(`${facts.name} has no chat template: it goes on from your text as it stands, and may not answer it.`);
  const shown = new Set(conversation.path.flatMap(mediaOf).map(({ type }) => type));
  const names = 'it is given the names of those in this conversation.';
  if (facts && shown.has('image') && !facts.takesPictures) notices.push(`${facts.name} takes no pictures: ${names}`);
  if (facts && shown.has('audio') && !facts.takesSounds) notices.push(`${facts.name} takes no sounds: ${names}`);
  byId('notice').hidden = notices.length === 0;
  byId('notice').textContent = notices.join(' ');
  byId('welcome').hidden = facts !== null || opened.isLoading || !conversation.isEmpty;
  byId('new-chat').hidden = facts === null;
  attachments.offer(facts?.takesPictures ?? false, facts?.takesSounds ?? false);
  settings.showDefaults(facts);
  adapters.show();
  showPrompt();
  messages.offerActions(facts !== null && !answering.isBusy);
  void showSeen({ speed: '', used: answering.usedBy(conversation.path.at(-1)) });
}
function showPrompt(): void {
  const isElsewhere = adapters.isAsking || adapters.isChanging;
  const why = adapters.isTeaching ? 'The model learns; ask it when it has finished' : isElsewhere ? 'One moment' : null;
  composer.show(opened.model?.facts.name ?? null, answering.isBusy, why);
}
async function showSeen(seen: Seen): Promise<void> {
  await showStats(opened.model, seen).catch(() => {}); // closed meanwhile
}

// Follows the answer while its end is in view, or shows it when it begins.
function keepInView(always: boolean): void {
  if (always || following) requestAnimationFrame(() => main.scrollTo({ top: main.scrollHeight }));
}
const main = document.querySelector('main')!;
let following = true;
main.addEventListener('scroll', () => (following = main.scrollHeight - main.scrollTop - main.clientHeight < 80), {
  passive: true,
});

// ---- the beginning: what was said, and the model that was open

async function begin(): Promise<void> {
  await conversation.openLast().catch(showError);
  showConversation();
  void conversations.draw();
  void loadMarkdown();
  server = await Server.find();
  if (server !== null) server.key = keptKey();
  const last = recall('last');
  if (server !== null && (last === null || 'served' in last)) return opened.load({ served: last?.served ?? '' });
  if (last === null || 'served' in last) return;
  const stored = await Sluice.storage.list().catch(() => []);
  if (stored.some(({ id, complete }) => id === last.id && complete))
    await opened.load({ source: { stored: last.id }, options: {} });
  else remember('last', null);
}
void begin();

if (import.meta.env.PROD && 'serviceWorker' in navigator) {
  navigator.serviceWorker
    .register('sw.js')
    .catch((error: unknown) => console.warn('works with a network only:', error));
}

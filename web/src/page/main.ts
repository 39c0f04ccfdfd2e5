// The page: a conversation with one model. All that computes is in the package.
import { formatBytes, mediaOf, Sluice, SluiceError } from '../index.ts';
import type { Answer, Chat, ExpertStats, GenerateOptions, LoadProgress, MediaPart, Part } from '../index.ts';
import { Attachments } from './attachments.ts';
import { byId, formatCount } from './dom.ts';
import { contentOf, release, withoutMedia } from './media.ts';
import { recall, remember } from './memory.ts';
import { MessageList, speedOf } from './messages.ts';
import { Models } from './models.ts';
import type { Choice } from './models.ts';
import { SettingsForm } from './settings.ts';

const kMegabyte = 1e6; // bytes

let model: Sluice | null = null;
let chat: Chat | null = null;
let loading: AbortController | null = null;
let answering: AbortController | null = null;
let lastChoice: Choice | null = null;

const prompt = byId<HTMLTextAreaElement>('prompt');
const send = byId<HTMLButtonElement>('send'),
  stop = byId<HTMLButtonElement>('stop');
const messages = new MessageList({
  regenerate: () => chat && follow((options) => chat!.regenerate(options), lastUser() + 1),
  edit: (index, content) => chat && follow((options) => chat!.edit(index, content, options), index, content),
});
const lastUser = (): number => chat?.messages.findLastIndex(({ role }) => role === 'user') ?? -1;
const settings = new SettingsForm(() => {});
new Models({
  choose: (choice) => void load(choice),
  release: (id) => model?.facts.id === id && close(),
  failed: showError,
});

// For people who do not see the page change.
const announce = (text: string): void => {
  byId('announce').textContent = text;
};

const attachments = new Attachments({
  prepare: (part) =>
    model?.prepare(part) ?? Promise.reject(new SluiceError('model', 'no model is open: choose one first')),
  changed: () => {
    showBusy();
    keepInView(false); // the prompt has grown or shrunk
  },
  failed: showError,
  announce,
});

// ---- errors

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const sentenceOf = (error: unknown): string => capital(error instanceof Error ? error.message : String(error));

function showError(error: unknown): void {
  const sentence = sentenceOf(error);
  byId('error-text').textContent = /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
  byId('error').hidden = false;
  const gone = error instanceof SluiceError && (error.kind === 'device-lost' || error.kind === 'closed');
  byId('error-again').hidden = !gone || lastChoice === null;
}
const hideError = (): void => {
  byId('error').hidden = true;
};
byId('error-close').onclick = hideError;
byId('error-again').onclick = () => lastChoice && void load(lastChoice);

// ---- a model

const kStages = {
  waiting: 'Another tab downloads it',
  downloading: 'Downloading',
  copying: 'Copying',
  opening: 'Opening the model',
};

function showProgress({ stage, loaded, total }: LoadProgress): void {
  const bar = byId<HTMLProgressElement>('load-bar');
  const amount =
    stage === 'opening'
      ? ''
      : total === null
        ? `: ${formatBytes(loaded)}`
        : `: ${formatBytes(loaded)} of ${formatBytes(total)}`;
  byId('load-text').textContent = kStages[stage] + amount;
  if (stage === 'opening' || total === null || total === 0) bar.removeAttribute('value');
  else bar.value = loaded / total;
}

function close(): void {
  answering?.abort();
  model?.close();
  [model, chat] = [null, null];
  showModel();
}

async function load(choice: Choice): Promise<void> {
  loading?.abort();
  const said = chat?.messages ?? recall('messages');
  close();
  hideError();
  lastChoice = choice;
  const mine = (loading = new AbortController());
  byId('load').hidden = false;
  byId('welcome').hidden = true;
  showProgress({ stage: 'opening', loaded: 0, total: null });
  const { device, context, expertMemory } = settings.values;
  try {
    model = await Sluice.load(choice.source, {
      ...choice.options,
      device,
      context: context ?? 0,
      expertMemory: (expertMemory ?? 0) * kMegabyte,
      onProgress: (progress) => loading === mine && showProgress(progress),
      signal: mine.signal,
    });
    const { takesPictures, takesSounds } = model.facts;
    const isLeftOut = ({ type }: MediaPart): boolean => (type === 'image' ? !takesPictures : !takesSounds);
    chat = model.chat({ messages: withoutMedia(said, isLeftOut) });
    if (model.facts.id !== null) lastChoice = { source: { stored: model.facts.id }, options: {} };
    remember('last', model.facts.id === null ? null : { id: model.facts.id, name: model.facts.name });
    announce(`${model.facts.name} is ready`);
  } catch (error) {
    if (!(error instanceof SluiceError && error.kind === 'aborted')) showError(error);
  } finally {
    if (loading === mine) {
      loading = null;
      byId('load').hidden = true;
      showModel();
      messages.show(chat?.messages ?? said);
      if (model !== null) prompt.focus();
    }
  }
}
byId('load-cancel').onclick = () => loading?.abort();

function showModel(): void {
  const facts = model?.facts ?? null;
  byId('model-name').textContent = facts?.name ?? 'Choose a model';
  const chip = byId('model-device');
  chip.hidden = facts === null;
  chip.textContent = facts?.device === 'webgpu' ? 'WebGPU' : 'CPU';
  chip.title = facts?.deviceName ?? '';
  const notice = byId('notice');
  notice.hidden = !facts?.whyNotGpu;
  notice.textContent = facts?.whyNotGpu
    ? `${capital(facts.whyNotGpu)}: the processor computes instead (WebAssembly SIMD), more slowly.`
    : '';
  byId('welcome').hidden = facts !== null || loading !== null || (chat?.messages ?? recall('messages')).length > 0;
  byId('new-chat').hidden = facts === null;
  prompt.disabled = facts === null;
  prompt.placeholder = facts === null ? 'Choose a model first' : `Ask ${facts.name}`;
  attachments.offer(facts?.takesPictures ?? false, facts?.takesSounds ?? false);
  settings.showDefaults(facts);
  showBusy();
  void showStats(null);
}

// ---- answers

function showBusy(): void {
  const busy = answering !== null;
  stop.hidden = !busy;
  send.hidden = busy;
  send.disabled = model === null || (prompt.value.trim() === '' && attachments.parts.length === 0);
}

// "room for 120 of 1,024 experts, 43 % found there"
function sayExperts({ inMemory, all, uses, misses }: ExpertStats): string {
  const found = uses === 0 ? '' : `, ${Math.round(100 * (1 - misses / uses))} % found there`;
  return `room for ${formatCount(inMemory)} of ${formatCount(all)} experts${found}`;
}

async function showStats(speed: string | null): Promise<void> {
  const line = byId('stats');
  if (model === null) {
    line.textContent = '';
    return;
  }
  const { heapBytes, gpuBytes, experts } = await model.stats();
  const memory =
    gpuBytes > 0
      ? `${formatBytes(heapBytes)} memory, ${formatBytes(gpuBytes)} on the GPU`
      : `${formatBytes(heapBytes)} memory`;
  line.textContent = [
    speed,
    memory,
    experts && sayExperts(experts),
    model && `context ${formatCount(model.facts.context)} tokens`,
  ]
    .filter(Boolean)
    .join(' · ');
}

function generateOptions(signal: AbortSignal): GenerateOptions {
  const { temperature, topK, topP, minP, repeatPenalty, maxTokens, seed, thinking } = settings.values;
  const given = Object.fromEntries(
    Object.entries({ temperature, topK, topP, minP, repeatPenalty, maxTokens, seed }).filter(
      ([, value]) => value !== null,
    ),
  );
  return { ...given, ...(thinking !== 'model' && { variables: { enable_thinking: thinking === 'on' } }), signal };
}

// What the model does first with a message that shows something.
function lookingAt(content: string | Part[]): string {
  const types = new Set(mediaOf({ role: 'user', content }).map(({ type }) => type));
  if (types.size === 2) return 'Looking at the picture and listening to the sound…';
  return types.has('image') ? 'Looking at the picture…' : types.has('audio') ? 'Listening to the sound…' : '';
}

// Shows an answer as it comes. The list is cut to `keep` messages first; `content` is a new one of the user's after them.
async function follow(
  start: (options: GenerateOptions) => Answer,
  keep: number,
  content: string | Part[] | null = null,
): Promise<void> {
  if (chat === null || answering !== null) return;
  hideError();
  const own = chat;
  own.options.system = settings.values.system;
  answering = new AbortController();
  const { signal } = answering;
  messages.truncate(keep);
  if (content !== null) messages.add({ role: 'user', content });
  const looking = lookingAt(content ?? '');
  const live = messages.begin(looking);
  showBusy();
  keepInView(true);
  announce(looking || 'Answering');
  try {
    const answer = start(generateOptions(signal));
    const began = performance.now();
    let shown = began,
      first = 0;
    for await (const piece of answer) {
      live.add(piece);
      keepInView(false);
      const now = performance.now();
      if (piece.tokens > 0 && first === 0) first = now;
      if (first > 0 && now - shown > 500) void showStats(speedOf(piece.tokens - 1, ((shown = now) - first) / 1000));
    }
    const result = await answer.result;
    live.finish(result);
    announce(result.text);
    void showStats(speedOf(result.tokens - 1, result.answerSeconds));
  } catch (error) {
    live.fail();
    if (!(error instanceof SluiceError && error.kind === 'closed' && signal.aborted)) showError(error);
    if (error instanceof SluiceError && error.kind === 'device-lost') close();
  } finally {
    answering = null;
    messages.offerActions();
    remember('messages', withoutMedia(own.messages));
    keepInView(false);
    showBusy();
    prompt.focus({ preventScroll: true });
  }
}

// Follows the answer while its end is in view, or shows it when it begins.
let following = true;
const main = document.querySelector('main')!;
main.addEventListener('scroll', () => (following = main.scrollHeight - main.scrollTop - main.clientHeight < 80), {
  passive: true,
});
function keepInView(always: boolean): void {
  if (always || following) requestAnimationFrame(() => main.scrollTo({ top: main.scrollHeight }));
}

// ---- the prompt

byId('composer').onsubmit = (event) => {
  event.preventDefault();
  const text = prompt.value.trim();
  if ((text === '' && attachments.parts.length === 0) || chat === null || answering !== null) return;
  prompt.value = '';
  grow();
  const content = contentOf(attachments.take(), text);
  void follow((options) => chat!.send(content, options), chat.messages.length, content);
};
function grow(): void {
  prompt.style.height = 'auto';
  prompt.style.height = `${Math.min(prompt.scrollHeight, 200)}px`;
}
prompt.oninput = () => {
  grow();
  showBusy();
};
prompt.onkeydown = (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId<HTMLFormElement>('composer').requestSubmit();
};
stop.onclick = () => answering?.abort();
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && document.querySelector('dialog[open]') === null) answering?.abort();
});
byId('new-chat').onclick = () => {
  answering?.abort();
  release(chat?.messages.flatMap(mediaOf) ?? []);
  if (model !== null) chat = model.chat();
  messages.show([]);
  remember('messages', []);
  prompt.focus();
};

// ---- light and dark

const systemDark = matchMedia('(prefers-color-scheme: dark)');
function showTheme(): void {
  const theme = recall('theme');
  const dark = theme === null ? systemDark.matches : theme === 'dark';
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  byId('theme').setAttribute('aria-pressed', `${dark}`);
}
byId('theme').onclick = () => {
  remember('theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  showTheme();
};
systemDark.addEventListener('change', showTheme);
showTheme();

// ---- the beginning: what was said, and the model that was open

async function begin(): Promise<void> {
  showModel();
  messages.show(recall('messages'));
  const last = recall('last');
  if (last === null) return;
  const stored = await Sluice.storage.list().catch(() => []);
  if (stored.some(({ id, complete }) => id === last.id && complete))
    await load({ source: { stored: last.id }, options: {} });
  else remember('last', null);
}
void begin();

if (import.meta.env.PROD && 'serviceWorker' in navigator) {
  navigator.serviceWorker
    .register('sw.js')
    .catch((error: unknown) => console.warn('works with a network only:', error));
}

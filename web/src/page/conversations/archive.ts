// Conversations as a file, to keep elsewhere and to bring back: JSON, with pictures and sounds in base64. Everything read is
// checked before any of it is kept.
import { base64 } from '../../base64.ts';
import { SluiceError } from '../../index.ts';
import type { MediaPart, Part, ToolCall } from '../../index.ts';
import type { ConversationRecord, TreeMessage } from './tree.ts';

const kFormat = 'sluice-conversations';
const kVersion = 1;
export const kExtension = '.conversations.json';
const kLargest = 512 << 20; // bytes; all of it is text in memory at once

export interface Archived {
  records: ConversationRecord[];
  messages: TreeMessage[];
}

// ---- writing

async function writePart(part: Part): Promise<unknown> {
  if (part.type === 'text') return part;
  const blob = part.type === 'image' ? part.image : part.audio;
  return { type: part.type, name: part.alt ?? '', media_type: blob.type, data: await base64(blob) };
}

export async function writeArchive({ records, messages }: Archived): Promise<Blob> {
  const conversations = [];
  for (const { id, name, created, changed, tip } of records) {
    const own = messages.filter(({ conversation }) => conversation === id);
    const written = own.map(async ({ conversation: _, content, ...rest }) => ({
      ...rest,
      content: typeof content === 'string' ? content : await Promise.all(content.map(writePart)),
    }));
    conversations.push({ id, name, created, changed, tip, messages: await Promise.all(written) });
  }
  const text = JSON.stringify({ format: kFormat, version: kVersion, conversations }, null, 1);
  return new Blob([text], { type: 'application/json' });
}

// ---- reading

type Fields = Record<string, unknown>;

// Where in the file, for sentences.
class Place {
  constructor(private readonly where: string) {}
  at(name: string | number): Place {
    return new Place(typeof name === 'number' ? `${this.where}[${name}]` : `${this.where}.${name}`);
  }
  wrong(found: unknown, want: string): never {
    const shown = JSON.stringify(found) ?? 'nothing';
    throw new SluiceError('storage', `${this.where}: found ${shown.length > 40 ? `${shown.slice(0, 40)}…` : shown}: want ${want}`);
  }
  fields(value: unknown): Fields {
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : this.wrong(value, 'an object');
  }
  list(value: unknown): unknown[] {
    return Array.isArray(value) ? value : this.wrong(value, 'a list');
  }
  text(value: unknown): string {
    return typeof value === 'string' ? value : this.wrong(value, 'a text');
  }
  id(value: unknown): string {
    return typeof value === 'string' && value !== '' && value.length <= 100 ? value : this.wrong(value, 'an id');
  }
  idOrNull(value: unknown): string | null {
    return value === null ? null : this.id(value);
  }
  time(value: unknown): number {
    return typeof value === 'number' && Number.isFinite(value) ? value : this.wrong(value, 'a time');
  }
}

function bytesOf(data: string, place: Place): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
  } catch {
    return place.wrong(data, 'base64');
  }
}

function readMedia(fields: Fields, type: 'image' | 'audio', place: Place): MediaPart {
  const alt = place.at('name').text(fields.name);
  const mediaType = place.at('media_type').text(fields.media_type);
  const file = new File([bytesOf(place.at('data').text(fields.data), place.at('data'))], alt, { type: mediaType });
  return type === 'image' ? { type, image: file, alt } : { type, audio: file, alt };
}

function readContent(value: unknown, place: Place): string | Part[] {
  if (typeof value === 'string') return value;
  return place.list(value).map((one, i) => {
    const at = place.at(i);
    const fields = at.fields(one);
    if (fields.type === 'text') return { type: 'text', text: at.at('text').text(fields.text) };
    if (fields.type === 'image' || fields.type === 'audio') return readMedia(fields, fields.type, at);
    return at.at('type').wrong(fields.type, 'text, image or audio');
  });
}

function readCall(value: unknown, place: Place): ToolCall {
  const fields = place.fields(value);
  return { name: place.at('name').text(fields.name), arguments: place.at('arguments').fields(fields.arguments) };
}

function readMessage(value: unknown, conversation: string, place: Place): TreeMessage {
  const fields = place.fields(value);
  const { role } = fields;
  return {
    conversation,
    id: place.at('id').id(fields.id),
    parent: place.at('parent').idOrNull(fields.parent),
    role: role === 'user' || role === 'assistant' ? role : place.at('role').wrong(role, 'user or assistant'),
    content: readContent(fields.content, place.at('content')),
    thinking: place.at('thinking').text(fields.thinking),
    finished: fields.finished !== false,
    note: place.at('note').text(fields.note),
    created: place.at('created').time(fields.created),
    ...(fields.thinkingSeconds !== undefined && { thinkingSeconds: place.at('thinkingSeconds').time(fields.thinkingSeconds) }),
    ...(fields.calls !== undefined && {
      calls: place.at('calls').list(fields.calls).map((call, i) => readCall(call, place.at('calls').at(i))),
    }),
  };
}

export async function readArchive(file: File): Promise<Archived> {
  if (file.size > kLargest) throw new SluiceError('storage', `${file.name}: has ${file.size} bytes: want at most ${kLargest}`);
  let whole: unknown;
  try {
    whole = JSON.parse(await file.text());
  } catch {
    throw new SluiceError('storage', `${file.name}: is no JSON: want a file of conversations that this page has exported`);
  }
  const place = new Place(file.name);
  const top = place.fields(whole);
  if (top.format !== kFormat) place.at('format').wrong(top.format, `"${kFormat}", as this page exports it`);
  if (top.version !== kVersion) place.at('version').wrong(top.version, `${kVersion}`);
  const read: Archived = { records: [], messages: [] };
  place.at('conversations').list(top.conversations).forEach((one, i) => {
    const at = place.at('conversations').at(i);
    const fields = at.fields(one);
    const id = at.at('id').id(fields.id);
    const times = { created: at.at('created').time(fields.created), changed: at.at('changed').time(fields.changed) };
    read.records.push({ id, name: at.at('name').text(fields.name), ...times, tip: at.at('tip').idOrNull(fields.tip), deleted: null });
    const messages = at.at('messages').list(fields.messages);
    read.messages.push(...messages.map((message, j) => readMessage(message, id, at.at('messages').at(j))));
  });
  return read;
}

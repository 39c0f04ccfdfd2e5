// What the page remembers between two visits, in this browser: settings, the last model, the colours. Conversations are in
// conversations/.
import type { Device, Message } from '../index.ts';

export interface Settings {
  system: string;
  temperature: number | null; // null: as the model's files ask
  topK: number | null;
  topP: number | null;
  minP: number | null;
  repeatPenalty: number | null;
  maxTokens: number | null; // null: what the context leaves
  seed: number | null; // null: each answer draws its own
  context: number | null; // null: the model's, or what fits; takes effect when a model is loaded
  expertMemory: number | null; // megabytes; null: what there is; likewise
  device: Device;
  thinking: 'model' | 'on' | 'off';
  schema: string; // JSON that answers keep to; empty: any text
  tools: string; // JSON, a list as OpenAI has it; empty: none
}
export const kDefaults: Settings = {
  system: '',
  temperature: null,
  topK: null,
  topP: null,
  minP: null,
  repeatPenalty: null,
  maxTokens: null,
  seed: null,
  context: null,
  expertMemory: null,
  device: 'auto',
  thinking: 'model',
  schema: '',
  tools: '',
};

// In the page's storage, or of the server.
export type LastModel = { id: string; name: string } | { served: string };
export type Theme = 'light' | 'dark';

interface Remembered {
  settings: Settings;
  theme: Theme | null; // null: the system's
  last: LastModel | null;
  list: 'open' | 'closed'; // of conversations, where it has a place beside them
}

const kPrefix = 'sluice.';
const kTab = `${kPrefix}conversation`,
  kOldMessages = `${kPrefix}messages`;
const kNothing: Remembered = { settings: kDefaults, theme: null, last: null, list: 'open' };

export function recall<K extends keyof Remembered>(key: K): Remembered[K] {
  try {
    const text = localStorage.getItem(kPrefix + key);
    if (text === null) return kNothing[key];
    const value: unknown = JSON.parse(text);
    return (key === 'settings' ? { ...kDefaults, ...(value as Partial<Settings>) } : value) as Remembered[K];
  } catch {
    return kNothing[key]; // unreadable, or a browser that keeps nothing
  }
}

export function remember<K extends keyof Remembered>(key: K, value: Remembered[K]): void {
  try {
    localStorage.setItem(kPrefix + key, JSON.stringify(value));
  } catch {
    // Full, or a browser that keeps nothing: the page works without.
  }
}

// The conversation that this tab shows, also after a reload.
export function rememberTab(conversation: string): void {
  try {
    sessionStorage.setItem(kTab, conversation);
  } catch {
    // A browser that keeps nothing.
  }
}
export function recallTab(): string | null {
  try {
    return sessionStorage.getItem(kTab);
  } catch {
    return null;
  }
}

// The messages that earlier versions of this page kept here, until they are in the list of conversations.
export function oldMessages(): Message[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(kOldMessages) ?? '[]');
    return Array.isArray(value) ? (value as Message[]) : [];
  } catch {
    return [];
  }
}
export const forgetOldMessages = (): void => localStorage.removeItem(kOldMessages);

// What the page remembers between two visits, in this browser: settings, the last model, the conversation.
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
};

export interface LastModel {
  id: string; // in the page's storage
  name: string;
}
export type Theme = 'light' | 'dark';

interface Remembered {
  settings: Settings;
  theme: Theme | null; // null: the system's
  last: LastModel | null;
  messages: Message[];
}

const kPrefix = 'sluice.';
const kNothing: Remembered = { settings: kDefaults, theme: null, last: null, messages: [] };

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

// What a model is given of a conversation, and whether it has room for that. The names of pictures and sounds that it does not
// take stand in their place.
import { mediaOf, SluiceError } from '../index.ts';
import type { LanguageModel, Message } from '../index.ts';
import { formatCount } from './dom.ts';
import { textOf, withoutMedia } from './media.ts';

const kAroundMessage = 32; // tokens that a template may put around one

// A model without a chat template goes on from the text as it stands, as the terminal does.
export function promptOf(model: LanguageModel, messages: Message[], system: string): string | Message[] {
  const { chat, takesPictures, takesSounds } = model.facts;
  const taken = withoutMedia(messages, ({ type }) => (type === 'image' ? !takesPictures : !takesSounds));
  if (!chat) return taken.map(textOf).join('');
  return system === '' ? taken : [{ role: 'system', content: system }, ...taken];
}

// A token has at least one byte. False: it has to be counted.
export function surelyFits(model: LanguageModel, messages: Message[], system: string): boolean {
  if (messages.some((message) => mediaOf(message).length > 0)) return false;
  const text = system + messages.map(textOf).join('');
  return new TextEncoder().encode(text).length + kAroundMessage * (messages.length + 2) < model.facts.context;
}

// Fails with a sentence where the prompt leaves no room for an answer.
export async function checkRoom(model: LanguageModel, prompt: string | Message[], variables: Record<string, unknown>): Promise<void> {
  const { context } = model.facts;
  const tokens = await model.measure(prompt, variables);
  if (tokens === null || tokens < context) return;
  const room = `${formatCount(tokens)} tokens with what was said before, and the context has room for ${formatCount(context)}`;
  throw new SluiceError('model', `the message is too long: ${room}: shorten it, start a new chat, or set a larger Context`);
}

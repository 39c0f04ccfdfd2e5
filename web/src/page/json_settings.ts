// The settings that are JSON: the schema that answers keep to, and the tools that the model may call. Read before a question
// is sent, so that none goes without them.
import { SluiceError } from '../index.ts';

// Undefined: the field is empty.
function parsed(text: string, what: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new SluiceError('model', `the ${what} in the settings: is no JSON (${(error as Error).message}): want JSON, or nothing`);
  }
}
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function readSchema(text: string): Record<string, unknown> | undefined {
  const value = parsed(text, 'JSON schema');
  if (value === undefined || isObject(value)) return value;
  throw new SluiceError('model', 'the JSON schema in the settings: is no object: want a JSON Schema, such as {"type": "object"}');
}

export function readTools(text: string): unknown[] | undefined {
  const value = parsed(text, 'list of tools');
  const named = (one: unknown): boolean => isObject(one) && isObject(one.function) && typeof one.function.name === 'string';
  if (value === undefined || (Array.isArray(value) && value.every(named))) return value as unknown[] | undefined;
  throw new SluiceError('model', 'the list of tools in the settings: is none: want a list of {"type": "function", "function": {"name": …}}');
}

// The adapters of a model: loaded from files, rescaled and dropped between answers. Their changes add up.
import { SluiceError } from './errors.ts';
import type { AdapterFacts, Operations } from './protocol.ts';

export interface AdapterOptions {
  // By which the adapter is multiplied; 1 by default.
  scale?: number;
  // Of the adapter; by default that of its file or folder.
  name?: string;
}

type Change = 'addAdapter' | 'scaleAdapter' | 'dropAdapter';
type Send = <O extends Change>(operation: O, input: Operations[O]['input']) => Promise<Operations[O]['output']>;

export class Adapters {
  private all: AdapterFacts[] = [];

  constructor(private readonly send: Send) {}

  // A GGUF file of llama.cpp, or the two files of a folder of PEFT or MLX. A model that was loaded without room for it
  // (adapterSlots) makes some, while no answer is made: on a GPU it is brought there again. Returns what it is called.
  async load(files: File | File[], { scale = 1, name }: AdapterOptions = {}): Promise<AdapterFacts> {
    const list = Array.isArray(files) ? files : [files];
    if (list.length === 0) throw new SluiceError('model', 'no file was given: want an adapter');
    const folder = list[0]!.webkitRelativePath.split('/').at(-2) ?? 'adapter';
    const known = name ?? (list.length === 1 ? list[0]!.name : folder);
    this.all = await this.send('addAdapter', { name: known.replaceAll('/', '-'), files: list, scale });
    return this.all.at(-1)!;
  }
  async scale(name: string, scale: number): Promise<void> {
    this.all = await this.send('scaleAdapter', { name, scale });
  }
  async drop(name: string): Promise<void> {
    this.all = await this.send('dropAdapter', { name });
  }
  list(): AdapterFacts[] {
    return [...this.all];
  }
  // A training has added one.
  heard(all: AdapterFacts[]): void {
    this.all = all;
  }
}

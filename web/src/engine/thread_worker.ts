// A worker of a page that is one of the module's threads.
import type { ThreadWork } from './threads.ts';
import { work } from './threads.ts';

addEventListener('message', ({ data }: MessageEvent<ThreadWork>) => void work(data, () => postMessage('ready')));

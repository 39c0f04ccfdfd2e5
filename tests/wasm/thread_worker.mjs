// A worker of Node that is one of the module's threads.
import { parentPort } from 'node:worker_threads';
import { work } from '../../web/src/engine/threads.ts';

parentPort.once('message', (data) => void work(data, () => parentPort.postMessage('ready')));

// Runs the modules that are tests in C++: cpp_test.mjs MODULE... Each exports faults() and then checks().
import { basename } from 'node:path';
import { loadModule } from './host.mjs';

for (const path of process.argv.slice(2)) {
  const { exports } = (await loadModule(path)).module;
  const faults = exports.faults(), checks = exports.checks();
  console.log(`${basename(path, '.wasm')}: ${checks} checks, ${faults} failed`);
  if (faults > 0 || checks === 0) process.exitCode = 1;
}

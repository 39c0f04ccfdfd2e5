// Runs the comparisons of simd128_test.cpp: simd128_test.mjs MODULE.
import { Module } from './module.mjs';

const { exports } = await Module.load(process.argv[2]);
const faults = exports.compare_kernels();
console.log(`SIMD128 kernels: ${exports.comparisons()} comparisons with plain C++, ${faults} differ`);
process.exitCode = faults === 0 && exports.comparisons() > 100 ? 0 : 1;

// Plays the engine's command streams on WebGPU: the page's side of src/device/webgpu/host.h, which src/wasm/page_gpu.cpp
// calls. Every object is a number. Nothing waits: what fails later leaves one sentence in `failure`, and from then on
// nothing happens any more.

/** Kinds of src/base/result.h. */
export type GpuFault = 'out_of_memory' | 'invalid' | 'unsupported' | 'io';

type Address = number;
const kRangeWords = 5; // buffer, offset and bytes as low and high word each
const kReadWords = 5; // buffer, offset as low and high word, bytes, address
const kDispatch = 1, kDispatchWords = 6, kCopyWords = 9; // CommandStream in host.h
const kStorageBuffers = 8;
const kLongestSentence = 400;
const kLostPatience = 1000; // ms
const kKeptStaging = 8; // buffers: a saved state has one for each page
const kUnderWay = 0, kEnded = 1, kFailed = 2;

const kFeatures: readonly GPUFeatureName[] = ['shader-f16', 'subgroups'];
const kLimits = [
  'maxBufferSize', 'maxStorageBufferBindingSize', 'maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupsPerDimension',
  'minUniformBufferOffsetAlignment', 'minStorageBufferOffsetAlignment',
] as const satisfies readonly (keyof GPUSupportedLimits)[];

// Unique in all hosts: what belongs to one that was lost is nobody's in the next.
let lastId = 0;

interface Pipeline {
  layout: GPUBindGroupLayout;
  made: GPUComputePipeline | null;
}
interface Read {
  at: number; // in the staging buffer
  bytes: number;
  address: Address;
}
interface Ticket {
  ended: boolean;
  staging: GPUBuffer | null;
  bytes: number;
  reads: Read[];
}

// Messages have several lines, with the text of the kernel in them.
function sentence(message: string): string {
  const line = message.split(/\s+/).join(' ').trim().replace(/\.$/, '');
  return line.length > kLongestSentence ? `${line.slice(0, kLongestSentence)}...` : line;
}

export class GpuHost {
  /** Why the last create() gave none. */
  static missing = '';

  readonly description: string;
  failure: { kind: GpuFault; text: string } | null = null;

  readonly #device: GPUDevice;
  readonly #adapter: string;
  #memory: (() => WebAssembly.Memory) | null = null;
  readonly #buffers = new Map<number, GPUBuffer>();
  readonly #bindings = new Map<number, GPUBindGroup>();
  readonly #pipelines = new Map<number, Pipeline>();
  readonly #byText = new Map<string, number>();
  readonly #layouts = new Map<string, { group: GPUBindGroupLayout; pipeline: GPUPipelineLayout }>();
  #underWay = 0; // pipelines
  #waiting: (() => void)[] = []; // submissions that want one of them, and all uploads and submissions behind
  readonly #tickets = new Map<number, Ticket>();
  #staging: { buffer: GPUBuffer; bytes: number }[] = [];
  #wake: (() => void)[] = [];

  /** Null, and a sentence in `missing`, where there is no WebGPU. */
  static async create(gpu: GPU | undefined = globalThis.navigator?.gpu): Promise<GpuHost | null> {
    GpuHost.missing = '';
    if (!gpu) {
      GpuHost.missing = 'this browser has no WebGPU';
      return null;
    }
    try {
      const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
      if (!adapter) {
        GpuHost.missing = 'WebGPU finds no GPU';
        return null;
      }
      if (adapter.limits.maxStorageBuffersPerShaderStage < kStorageBuffers) {
        GpuHost.missing = `the GPU binds ${adapter.limits.maxStorageBuffersPerShaderStage} buffers: want ${kStorageBuffers}`;
        return null;
      }
      const device = await adapter.requestDevice({
        requiredFeatures: kFeatures.filter((feature) => adapter.features.has(feature)),
        requiredLimits: Object.fromEntries(kLimits.map((name) => [name, adapter.limits[name]])),
      });
      return new GpuHost(adapter, device);
    } catch (error) {
      GpuHost.missing = `WebGPU gives no device (${sentence(String(error))})`;
      return null;
    }
  }

  private constructor(adapter: GPUAdapter, device: GPUDevice) {
    this.#device = device;
    const { info, limits } = adapter;
    const named = [info.vendor, info.architecture, info.device].filter((part) => part !== '').join(' ');
    this.description = info.description || named || 'unnamed GPU';
    const sizes = info as { subgroupMinSize?: number; subgroupMaxSize?: number; isFallbackAdapter?: boolean };
    this.#adapter = JSON.stringify({
      description: `${this.description}, WebGPU`,
      driver: [named, globalThis.navigator?.userAgent ?? ''].join(' ').trim(),
      is_software: sizes.isFallbackAdapter ?? false,
      buffer_bytes: limits.maxBufferSize,
      binding_bytes: limits.maxStorageBufferBindingSize,
      uniform_alignment: limits.minUniformBufferOffsetAlignment,
      storage_alignment: limits.minStorageBufferOffsetAlignment,
      workgroup_bytes: limits.maxComputeWorkgroupStorageSize,
      workgroup_threads: Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
      workgroups: limits.maxComputeWorkgroupsPerDimension,
      f16: device.features.has('shader-f16'),
      subgroups: device.features.has('subgroups'),
      subgroup_least: sizes.subgroupMinSize ?? 0,
      subgroup_most: sizes.subgroupMaxSize ?? 0,
    });
    device.addEventListener('uncapturederror', ({ error }) => {
      const outOfMemory = typeof GPUOutOfMemoryError !== 'undefined' && error instanceof GPUOutOfMemoryError;
      this.#fail(outOfMemory ? 'out_of_memory' : 'invalid', sentence(error.message));
    });
    void device.lost.then(({ message }) => this.#fail('io', `the GPU device was lost (${sentence(message)})`));
  }

  /** Ends when pipelines are made and uploads have arrived, or something went wrong. */
  async settle(): Promise<void> {
    while (this.#underWay > 0 && !this.failure) await this.wait();
    if (!this.failure) await this.#device.queue.onSubmittedWorkDone().catch(() => undefined);
  }
  /** Ends when a submission or a pipeline has ended, or something went wrong; at once where none is under way. */
  async wait(): Promise<void> {
    const underWay = this.#underWay > 0 || [...this.#tickets.values()].some(({ ended }) => !ended);
    if (!underWay || this.failure) return new Promise((resolve) => setTimeout(resolve));
    return new Promise((resolve) => this.#wake.push(resolve));
  }
  /** Gives the GPU back; whatever was on it ends with a failure. */
  close(): void {
    this.#device.destroy();
  }

  /** What the module imports as "gpu". */
  imports(memory: () => WebAssembly.Memory): Record<string, (...args: number[]) => number | void> {
    this.#memory = memory;
    return {
      adapter: (into = 0, room = 0) => this.#answer(this.#adapter, into, room),
      failure: (into = 0, room = 0) => (this.failure ? this.#answer(JSON.stringify(this.failure), into, room) : 0),
      buffer: (bytes = 0, isUniform = 0) => this.#buffer(bytes, isUniform !== 0),
      drop_buffer: (id = 0) => {
        this.#buffers.get(id)?.destroy();
        this.#buffers.delete(id);
      },
      pipeline: (name = 0, nameBytes = 0, wgsl = 0, wgslBytes = 0, access = 0, count = 0) =>
        this.#pipeline(this.#text(name, nameBytes), this.#text(wgsl, wgslBytes), [...this.#bytes(access, count)]),
      pipelines: () => this.#pipelines.size,
      bind: (pipeline = 0, ranges = 0, count = 0) => this.#bind(pipeline, this.#words(ranges, count * kRangeWords)),
      drop_binding: (id = 0) => {
        this.#bindings.delete(id);
      },
      upload: (buffer = 0, offset = 0, from = 0, bytes = 0) => this.#upload(buffer, offset, this.#bytes(from, bytes)),
      submit: (words = 0, count = 0, reads = 0, readCount = 0) =>
        this.#submit(this.#words(words, count), this.#words(reads, readCount * kReadWords)),
      poll: (ticket = 0) => this.#poll(ticket),
    };
  }

  // The memory may have grown since the last call.
  #bytes(at: Address, bytes: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#memory!().buffer as ArrayBuffer, at >>> 0, bytes);
  }
  #words(at: Address, count: number): Uint32Array<ArrayBuffer> {
    return new Uint32Array(this.#memory!().buffer as ArrayBuffer, at >>> 0, count);
  }
  #text(at: Address, bytes: number): string {
    return new TextDecoder().decode(this.#bytes(at, bytes).slice());
  }
  // The bytes of the text, of which as many are there as have room.
  #answer(text: string, into: Address, room: number): number {
    const bytes = new TextEncoder().encode(text);
    this.#bytes(into, Math.min(room, bytes.length)).set(bytes.subarray(0, room));
    return bytes.length;
  }

  #fail(kind: GpuFault, text: string): void {
    this.failure ??= { kind, text: `webgpu: ${text}` };
    this.#waiting = [];
    this.#notify();
  }
  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  #buffer(bytes: number, isUniform: boolean): number {
    const id = ++lastId;
    if (this.failure) return id;
    const use = isUniform ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE;
    try {
      this.#buffers.set(id, this.#device.createBuffer({ size: bytes, usage: use | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST }));
    } catch (error) {
      this.#fail('out_of_memory', `no buffer of ${bytes} bytes (${sentence(String(error))})`);
    }
    return id;
  }

  // Storage buffers, then two uniform ones, the first with a dynamic offset.
  #layout(access: readonly number[]): { group: GPUBindGroupLayout; pipeline: GPUPipelineLayout } {
    const key = access.join();
    const known = this.#layouts.get(key);
    if (known) return known;
    const entry = (binding: number, buffer: GPUBufferBindingLayout): GPUBindGroupLayoutEntry =>
      ({ binding, visibility: GPUShaderStage.COMPUTE, buffer });
    const group = this.#device.createBindGroupLayout({
      entries: [
        ...access.map((writes, i) => entry(i, { type: writes ? 'storage' : 'read-only-storage' })),
        entry(access.length, { type: 'uniform', hasDynamicOffset: true }),
        entry(access.length + 1, { type: 'uniform' }),
      ],
    });
    const layout = { group, pipeline: this.#device.createPipelineLayout({ bindGroupLayouts: [group] }) };
    this.#layouts.set(key, layout);
    return layout;
  }

  #pipeline(name: string, wgsl: string, access: readonly number[]): number {
    const known = this.#byText.get(wgsl);
    if (known !== undefined) return known;
    const id = ++lastId;
    this.#byText.set(wgsl, id);
    if (this.failure) return id;
    const layout = this.#layout(access);
    const own: Pipeline = { layout: layout.group, made: null };
    this.#pipelines.set(id, own);
    const module = this.#device.createShaderModule({ label: name, code: wgsl });
    ++this.#underWay;
    this.#device.createComputePipelineAsync({ label: name, layout: layout.pipeline, compute: { module, entryPoint: 'main' } })
      .then((made) => (own.made = made), (error: unknown) => this.#fail('unsupported', `kernel ${name}: ${sentence(String(error))}`))
      .finally(() => {
        if (--this.#underWay === 0) for (const play of this.#waiting.splice(0)) play();
        this.#notify();
      });
    return id;
  }

  #bind(pipeline: number, ranges: Uint32Array): number {
    const id = ++lastId;
    const layout = this.#pipelines.get(pipeline)?.layout;
    if (this.failure || !layout) return id;
    const entries: GPUBindGroupEntry[] = [];
    for (let at = 0; at < ranges.length; at += kRangeWords) {
      const buffer = this.#buffers.get(ranges[at]!);
      if (!buffer) return id;
      entries.push({ binding: entries.length, resource: { buffer, offset: wide(ranges, at + 1), size: wide(ranges, at + 3) } });
    }
    this.#bindings.set(id, this.#device.createBindGroup({ layout, entries }));
    return id;
  }

  #upload(id: number, offset: number, bytes: Uint8Array<ArrayBuffer>): void {
    const buffer = this.#buffers.get(id);
    if (this.failure || !buffer || bytes.length === 0) return;
    if (this.#waiting.length === 0) {
      this.#device.queue.writeBuffer(buffer, offset, bytes);
      return;
    }
    const kept = bytes.slice();
    this.#waiting.push(() => this.#device.queue.writeBuffer(buffer, offset, kept));
  }

  #submit(words: Uint32Array, reads: Uint32Array): number {
    const id = ++lastId;
    if (this.failure) return id;
    const ticket: Ticket = { ended: false, staging: null, bytes: 0, reads: [] };
    this.#tickets.set(id, ticket);
    if (this.#underWay === 0) {
      this.#play(ticket, words, reads);
    } else {
      const keptWords = words.slice(), keptReads = reads.slice();
      this.#waiting.push(() => this.#play(ticket, keptWords, keptReads));
    }
    return id;
  }

  #play(ticket: Ticket, words: Uint32Array, reads: Uint32Array): void {
    const encoder = this.#device.createCommandEncoder();
    this.#encode(encoder, words);
    for (let at = 0; at < reads.length; at += kReadWords) {
      ticket.reads.push({ at: ticket.bytes, bytes: reads[at + 3]!, address: reads[at + 4]! });
      ticket.bytes += reads[at + 3]!;
    }
    if (ticket.bytes > 0) {
      ticket.staging = this.#takeStaging(ticket.bytes);
      ticket.reads.forEach((read, i) => {
        const from = this.#buffers.get(reads[i * kReadWords]!);
        if (from && read.bytes > 0) encoder.copyBufferToBuffer(from, wide(reads, i * kReadWords + 1), ticket.staging!, read.at, read.bytes);
      });
    }
    this.#device.queue.submit([encoder.finish()]);
    // The queue keeps the order, and what goes wrong is a failure: only what is read back has to be waited for.
    if (!ticket.staging) {
      ticket.ended = true;
      return;
    }
    ticket.staging.mapAsync(GPUMapMode.READ, 0, ticket.bytes)
      .then(() => (ticket.ended = true), async (error: unknown) => {
        // A lost device says so itself, a little later.
        await Promise.race([this.#device.lost, new Promise((resolve) => setTimeout(resolve, kLostPatience))]);
        this.#fail('io', `a step did not end well (${sentence(String(error))})`);
      })
      .finally(() => this.#notify());
  }

  #encode(encoder: GPUCommandEncoder, words: Uint32Array): void {
    let pass: GPUComputePassEncoder | null = null;
    for (let at = 0; at < words.length; ) {
      if (words[at] === kDispatch) {
        pass ??= encoder.beginComputePass();
        pass.setPipeline(this.#pipelines.get(words[at + 1]!)!.made!);
        pass.setBindGroup(0, this.#bindings.get(words[at + 2]!)!, [words[at + 3]!]);
        pass.dispatchWorkgroups(words[at + 4]!, words[at + 5]!);
        at += kDispatchWords;
      } else {
        pass?.end();
        pass = null;
        const from = this.#buffers.get(words[at + 1]!)!, to = this.#buffers.get(words[at + 2]!)!;
        encoder.copyBufferToBuffer(from, wide(words, at + 3), to, wide(words, at + 5), wide(words, at + 7));
        at += kCopyWords;
      }
    }
    pass?.end();
  }

  #takeStaging(bytes: number): GPUBuffer {
    const fits = this.#staging.findIndex((staging) => staging.bytes >= bytes);
    const [found] = fits < 0 ? [] : this.#staging.splice(fits, 1);
    return found?.buffer ?? this.#device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  #poll(id: number): number {
    const ticket = this.#tickets.get(id);
    if (!ticket || this.failure) {
      this.#tickets.delete(id);
      return kFailed;
    }
    if (!ticket.ended) return kUnderWay;
    this.#tickets.delete(id);
    if (ticket.staging) {
      const from = new Uint8Array(ticket.staging.getMappedRange(0, ticket.bytes));
      for (const { at, bytes, address } of ticket.reads) this.#bytes(address, bytes).set(from.subarray(at, at + bytes));
      ticket.staging.unmap();
      if (this.#staging.length < kKeptStaging) this.#staging.push({ buffer: ticket.staging, bytes: ticket.staging.size });
      else ticket.staging.destroy();
    }
    return kEnded;
  }
}

function wide(words: Uint32Array, at: number): number {
  return words[at]! + words[at + 1]! * 2 ** 32;
}

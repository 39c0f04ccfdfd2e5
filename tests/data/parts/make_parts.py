#!/usr/bin/env python3
"""Writes the checkpoints of this folder: Gemma 4 layers whose matrices are 8- and 4-bit floats, or in MLX's directories
integers, with their scales in tensors of their own, as the tools that make such checkpoints lay them out, and
expected.json: the CRC-32 of each matrix's numbers, decoded here by the definitions (OCP's OFP8 and microscaling pages,
MLX's affine_quantize) to little-endian f32.

    tests/data/parts/make_parts.py      # plain Python 3
"""
import bisect
import json
import math
import os
import struct
import zlib

FOLDER = os.path.dirname(os.path.abspath(__file__))
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, WIDTH, EXPERTS, EXPERT_WIDTH, VOCABULARY = 160, 4, 2, 32, 160, 2, 96, 64
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-x or 0.0 for x in E2M1]  # the sign of zero is dropped, as ggml does


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16_bits(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bf16(x):
    return struct.unpack("<f", struct.pack("<I", bf16_bits(x) << 16))[0]


def e4m3(bits):
    exponent, mantissa = bits >> 3 & 15, bits & 7
    magnitude = mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0**(exponent - 7)
    return -magnitude if bits & 128 else magnitude


def nearest(table):
    """A function from a number to the code whose value is nearest; `table`: value by code."""
    ordered = sorted((value, code) for code, value in table.items())
    values = [value for value, _ in ordered]

    def code_of(x):
        i = bisect.bisect_left(values, x)
        near = [j for j in (i - 1, i) if 0 <= j < len(values)]
        return ordered[min(near, key=lambda j: abs(values[j] - x))][1]
    return code_of


to_e4m3 = nearest({code: e4m3(code) for code in range(256) if code & 127 != 127})
to_e2m1 = nearest(dict(enumerate(E2M1)))


class Numbers:
    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 40) / 2**23 - 1

    def matrix(self, rows, columns):
        return [[1.7 / math.sqrt(columns) * self.uniform() for _ in range(columns)] for _ in range(rows)]


def largest(rows):
    return max(abs(x) for row in rows for x in row)


class Checkpoint:
    def __init__(self):
        self.tensors, self.expected = {}, {}

    def put(self, name, dtype, shape, data):
        self.tensors[name] = (dtype, shape, data)

    def bf16(self, name, shape, values):
        self.put(name, "BF16", shape, b"".join(struct.pack("<H", bf16_bits(x)) for x in values))

    def f32(self, name, shape, values):
        self.put(name, "F32", shape, struct.pack(f"<{len(values)}f", *values))

    def expect(self, name, rows):
        self.expected[name] = zlib.crc32(b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows))

    def write(self, name, config, odd=False):
        folder = os.path.join(FOLDER, name)
        os.makedirs(folder, exist_ok=True)
        header, data = {}, b""
        for tensor, (dtype, shape, held) in self.tensors.items():
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(held)]}
            data += held
        text = json.dumps(header).encode()
        text += b" " * (odd and len(text) % 2 == 0)
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        for document, content in (("config.json", config), ("expected.json", self.expected)):
            with open(os.path.join(folder, document), "w") as file:
                json.dump(content, file, indent=1)
                file.write("\n")


def fp8_block(checkpoint, name, experts):
    """DeepSeek's: scales of 128 x 128 blocks, the last ones partial. Several experts are stacked."""
    codes, scales, decoded = b"", [], []
    rows, columns = len(experts[0]), len(experts[0][0])
    for matrix in experts:
        blocks = [[f32(largest([row[j:j + 128] for row in matrix[i:i + 128]]) / 448) for j in range(0, columns, 128)]
                  for i in range(0, rows, 128)]
        scales += [x for row in blocks for x in row]
        for i, row in enumerate(matrix):
            held = bytes(to_e4m3(x / blocks[i // 128][j // 128]) for j, x in enumerate(row))
            codes += held
            decoded.append([f32(e4m3(code) * blocks[i // 128][j // 128]) for j, code in enumerate(held)])
    stacked = [len(experts)] if len(experts) > 1 else []
    checkpoint.put(name, "F8_E4M3", stacked + [rows, columns], codes)
    checkpoint.f32(name + "_scale_inv", stacked + [-(-rows // 128), -(-columns // 128)], scales)
    checkpoint.expect(name, decoded)


def fp8_scaled(checkpoint, name, experts):
    """compressed-tensors: one scale a row for q, k and v, one a tensor, in bf16 or f32, with or without a dimension."""
    (matrix,) = experts
    by_row = any(part in name for part in ("q_proj", "k_proj", "v_proj"))
    scales = [bf16(largest([row]) / 448) for row in matrix] if by_row else [f32(largest(matrix) / 448)] * len(matrix)
    codes = [bytes(to_e4m3(x / scale) for x in row) for row, scale in zip(matrix, scales)]
    checkpoint.put(name, "F8_E4M3", [len(matrix), len(matrix[0])], b"".join(codes))
    if by_row:
        checkpoint.bf16(name + "_scale", [len(matrix), 1], scales)
    else:
        checkpoint.f32(name + "_scale", [1] if "o_proj" in name else [], scales[:1])
        checkpoint.f32(name.replace(".weight", ".input_scale"), [1], [0.5])  # of activations: not ours to use
    checkpoint.expect(name, [[f32(e4m3(c) * s) for c in row] for row, s in zip(codes, scales)])


def int4(checkpoint, name, experts):
    """compressed-tensors pack-quantized: integers of 4 bits, 8 more than they are, eight in a word; 32 share a scale."""
    (matrix,) = experts
    held, scales, decoded = b"", [], []
    for row in matrix:
        steps = [bf16(largest([row[j:j + 32]]) / 7) for j in range(0, len(row), 32)]
        codes = [min(max(round(x / steps[j // 32]), -8), 7) + 8 for j, x in enumerate(row)]
        held += packed(codes)
        scales += steps
        decoded.append([f32((code - 8) * steps[j // 32]) for j, code in enumerate(codes)])
    rows, columns = len(matrix), len(matrix[0])
    checkpoint.put(name + "_packed", "I32", [rows, columns // 8], held)
    checkpoint.bf16(name + "_scale", [rows, columns // 32], scales)
    checkpoint.put(name + "_shape", "I64", [2], struct.pack("<qq", rows, columns))
    checkpoint.expect(name, decoded)


def packed(codes):
    return bytes(codes[i] | codes[i + 1] << 4 for i in range(0, len(codes), 2))


def mxfp4(checkpoint, name, experts):
    """compressed-tensors mxfp4-pack-quantized: 32 elements share a power of two."""
    (matrix,) = experts
    held, exponents, decoded = b"", b"", []
    for row in matrix:
        powers = [math.floor(math.log2(largest([row[j:j + 32]]))) - 2 for j in range(0, len(row), 32)]
        codes = [to_e2m1(x / 2.0**powers[j // 32]) for j, x in enumerate(row)]
        held += packed(codes)
        exponents += bytes(power + 127 for power in powers)
        decoded.append([E2M1[code] * 2.0**powers[j // 32] for j, code in enumerate(codes)])
    rows, columns = len(matrix), len(matrix[0])
    checkpoint.put(name + "_packed", "U8", [rows, columns // 2], held)
    checkpoint.put(name + "_scale", "U8", [rows, columns // 32], exponents)
    checkpoint.expect(name, decoded)


def nvfp4(checkpoint, name, experts, reciprocal):
    """modelopt's, and compressed-tensors' with the reciprocal of the tensor's scale: 16 elements share an e4m3."""
    (matrix,) = experts
    whole = f32(largest(matrix) / (6 * 448))
    stored = f32(1 / whole) if reciprocal else whole
    held, block_codes, decoded = b"", b"", []
    for row in matrix:
        blocks = bytes(to_e4m3(largest([row[j:j + 16]]) / 6 / whole) for j in range(0, len(row), 16))
        codes = [to_e2m1(x / (e4m3(blocks[j // 16]) * whole)) for j, x in enumerate(row)]
        held += packed(codes)
        block_codes += blocks
        steps = [f32(E2M1[code] * e4m3(blocks[j // 16])) for j, code in enumerate(codes)]
        decoded.append([f32(x / stored) if reciprocal else f32(x * stored) for x in steps])
    rows, columns = len(matrix), len(matrix[0])
    checkpoint.put(name + ("_packed" if reciprocal else ""), "U8", [rows, columns // 2], held)
    checkpoint.put(name + "_scale", "F8_E4M3", [rows, columns // 16], block_codes)
    checkpoint.f32(name + ("_global_scale" if reciprocal else "_scale_2"), [1] if reciprocal else [], [stored])
    checkpoint.f32(name.replace(".weight", ".input_global_scale" if reciprocal else ".input_scale"), [1], [0.5])
    checkpoint.expect(name, decoded)


def config(experts, quantization):
    text = {"model_type": "gemma4_text", "attention_k_eq_v": False, "enable_moe_block": experts != 0,
            "final_logit_softcapping": 30.0, "global_head_dim": HEAD_DIM, "head_dim": HEAD_DIM,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": HIDDEN, "hidden_size_per_layer_input": 0,
            "intermediate_size": WIDTH, "layer_types": ["full_attention"], "max_position_embeddings": 131072,
            "moe_intermediate_size": EXPERT_WIDTH if experts else None, "num_attention_heads": HEADS,
            "num_experts": experts or None, "num_global_key_value_heads": None, "num_hidden_layers": 1,
            "num_key_value_heads": KV_HEADS, "num_kv_shared_layers": 0, "rms_norm_eps": 1e-6,
            "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6,
                                                   "rope_type": "proportional"},
                                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}},
            "sliding_window": 8, "tie_word_embeddings": True, "top_k_experts": 1 if experts else None,
            "use_bidirectional_attention": None, "use_double_wide_mlp": False, "vocab_size": VOCABULARY}
    return {"model_type": "gemma4", "text_config": text, "eos_token_id": [1], "quantization_config": quantization}


def make(name, scheme, quantization, experts=0):
    numbers, checkpoint = Numbers(len(name)), Checkpoint()
    model, layer = "model.language_model.", "model.language_model.layers.0."
    checkpoint.bf16(model + "embed_tokens.weight", [VOCABULARY, HIDDEN],
                    [x for row in numbers.matrix(VOCABULARY, HIDDEN) for x in row])
    norms = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
    if experts:
        norms += ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"]
        checkpoint.bf16(layer + "router.proj.weight", [experts, HIDDEN],
                        [x for row in numbers.matrix(experts, HIDDEN) for x in row])
        checkpoint.bf16(layer + "router.scale", [HIDDEN], [1.0] * HIDDEN)
        checkpoint.bf16(layer + "router.per_expert_scale", [experts], [1.0] * experts)
        for part, rows, columns in (("gate_up_proj", 2 * EXPERT_WIDTH, HIDDEN), ("down_proj", HIDDEN, EXPERT_WIDTH)):
            scheme(checkpoint, layer + "experts." + part, [numbers.matrix(rows, columns) for _ in range(experts)])
    for norm in norms:
        checkpoint.bf16(f"{layer}{norm}.weight", [HIDDEN], [1 + 0.5 * numbers.uniform() for _ in range(HIDDEN)])
    checkpoint.bf16(model + "norm.weight", [HIDDEN], [1 + 0.5 * numbers.uniform() for _ in range(HIDDEN)])
    checkpoint.bf16(layer + "layer_scalar", [1], [1.0])
    for norm in ("q_norm", "k_norm"):
        checkpoint.bf16(f"{layer}self_attn.{norm}.weight", [HEAD_DIM], [1.0] * HEAD_DIM)
    for part, rows, columns in (("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN),
                                ("self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                                ("self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                                ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
                                ("mlp.gate_proj", WIDTH, HIDDEN), ("mlp.up_proj", WIDTH, HIDDEN),
                                ("mlp.down_proj", HIDDEN, WIDTH)):
        scheme(checkpoint, f"{layer}{part}.weight", [numbers.matrix(rows, columns)])
    checkpoint.write(name, config(experts, quantization))


# --- MLX: every number of bits in every group, other modes, and a matrix that is not quantised

MLX = {"hidden_size": 128, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32, "global_head_dim": 32,
       "intermediate_size": 32, "moe_intermediate_size": 32, "vocab_size": 32, "num_hidden_layers": 2,
       "layer_types": ["full_attention"] * 2}
AFFINE = [{"group_size": group, "bits": bits} for group in (128, 64, 32) for bits in (2, 3, 4, 5, 6, 8)]
MODES = [{"group_size": 32, "bits": 4, "mode": "mxfp4"}, {"mode": "mxfp8"}, {"group_size": 16, "mode": "nvfp4"}]
FLOATS = {"BF16": (bf16, lambda x: struct.pack("<H", bf16_bits(x))),
          "F16": (lambda x: struct.unpack("<e", struct.pack("<e", x))[0], lambda x: struct.pack("<e", x)),
          "F32": (f32, lambda x: struct.pack("<f", x))}


def bit_string(codes, bits):
    """Element j is bits j * bits and up of one long little-endian number."""
    whole = sum(code << j * bits for j, code in enumerate(codes))
    return whole.to_bytes(len(codes) * bits // 8, "little")


def affine_group(group, bits, rounded):
    low, high, most = min(group), max(group), 2**bits - 1
    from_low = abs(low) > abs(high)
    scale = max((high - low) / most, 1e-7) * (1 if from_low else -1)
    edge = low if from_low else high
    zero = round(edge / scale)
    scale, offset = (edge / zero, edge) if zero else (scale, 0.0)
    scale, offset = rounded(scale), rounded(offset)
    codes = [min(max(round((x - offset) / scale), 0), most) for x in group]
    return codes, scale, offset, [f32(f32(code * scale) + offset) for code in codes]


def micro_group(group, mode):
    if mode == "nvfp4":
        scale_code = to_e4m3(largest([group]) / 6)
        scale = e4m3(scale_code)
    else:
        power = math.floor(math.log2(largest([group]))) - (2 if mode == "mxfp4" else 8)
        scale_code, scale = power + 127, 2.0**power
    code_of, value_of = (to_e4m3, e4m3) if mode == "mxfp8" else (to_e2m1, E2M1.__getitem__)
    codes = [code_of(x / scale) for x in group]
    return codes, scale_code, [f32(value_of(code) * scale) for code in codes]


def mlx(checkpoint, name, experts, entry, dtype):
    mode = entry.get("mode", "affine")
    bits = entry.get("bits", 8 if mode == "mxfp8" else 4)
    size = entry.get("group_size", 64 if mode == "affine" else 32)
    held, scales, offsets, decoded = b"", b"", b"", []
    for row in (row for matrix in experts for row in matrix):
        codes, values = [], []
        for j in range(0, len(row), size):
            if mode == "affine":
                rounded, stored = FLOATS[dtype]
                some, scale, offset, numbers = affine_group(row[j:j + size], bits, rounded)
                scales, offsets = scales + stored(scale), offsets + stored(offset)
            else:
                some, scale, numbers = micro_group(row[j:j + size], mode)
                scales += bytes([scale])
            codes, values = codes + some, values + numbers
        held += bit_string(codes, bits)
        decoded.append(values)
    columns = len(experts[0][0])
    shape = ([len(experts)] if len(experts) > 1 else []) + [len(experts[0])]
    checkpoint.put(name + ".weight", "U32", shape + [columns * bits // 32], held)
    checkpoint.put(name + ".scales", dtype if mode == "affine" else "U8", shape + [columns // size], scales)
    if mode == "affine":
        checkpoint.put(name + ".biases", dtype, shape + [columns // size], offsets)
    checkpoint.expect(name + ".weight", decoded)


def make_mlx(name):
    numbers, checkpoint, model = Numbers(len(name)), Checkpoint(), "language_model.model."
    quantization = {"group_size": 64, "bits": 4}
    hidden, experts, left = MLX["hidden_size"], 2, AFFINE + MODES

    def matrix(path, rows, columns, count=1):
        entry = next((e for e in left if columns % e.get("group_size", 32) == 0), {"group_size": 32, "bits": 4})
        if entry in left:
            left.remove(entry)
        if entry != quantization_default:
            quantization[path] = entry
        dtype = "BF16" if ".0." in path else "F16" if "attn" in path else "F32"
        mlx(checkpoint, path, [numbers.matrix(rows, columns) for _ in range(count)], entry, dtype)

    def vector(path, width, spread):
        checkpoint.bf16(path, [width], [1 + spread * numbers.uniform() for _ in range(width)])

    quantization_default = dict(quantization)
    matrix(model + "embed_tokens", MLX["vocab_size"], hidden)
    vector(model + "norm.weight", hidden, 0.5)
    for i in range(MLX["num_hidden_layers"]):
        layer = f"{model}layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                     "pre_feedforward_layernorm_2"):
            vector(f"{layer}{norm}.weight", hidden, 0.5)
        vector(layer + "self_attn.q_norm.weight", 32, 0)
        vector(layer + "self_attn.k_norm.weight", 32, 0)
        vector(layer + "layer_scalar", 1, 0)
        vector(layer + "router.scale", hidden, 0)
        vector(layer + "router.per_expert_scale", experts, 0)
        for part, rows, columns, count in (
                ("self_attn.q_proj", 32, hidden, 1), ("self_attn.k_proj", 32, hidden, 1),
                ("self_attn.v_proj", 32, hidden, 1), ("mlp.gate_proj", 32, hidden, 1),
                ("mlp.up_proj", 32, hidden, 1), ("experts.switch_glu.gate_proj", 32, hidden, experts),
                ("experts.switch_glu.up_proj", 32, hidden, experts), ("self_attn.o_proj", hidden, 32, 1),
                ("mlp.down_proj", hidden, 32, 1), ("experts.switch_glu.down_proj", hidden, 32, experts)):
            matrix(layer + part, rows, columns, count)
        if i == 0:
            matrix(layer + "router.proj", experts, hidden)
        else:
            quantization[layer + "router.proj"] = False
            checkpoint.bf16(layer + "router.proj.weight", [experts, hidden],
                            [x for row in numbers.matrix(experts, hidden) for x in row])
    assert not left, left
    quantization["vision_tower.dropped"] = {"group_size": 64, "bits": 8}
    document = config(experts, quantization)
    document["text_config"].update(MLX)
    document["quantization"] = document["quantization_config"]
    # MLX does not pad the header: tensors begin at odd addresses.
    checkpoint.tensors = dict(sorted(checkpoint.tensors.items(), reverse=True))
    checkpoint.write(name, document, odd=True)


make("fp8_block", fp8_block, {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128],
                              "activation_scheme": "dynamic"}, EXPERTS)
make("fp8_scaled", fp8_scaled, {"quant_method": "compressed-tensors", "format": "float-quantized"})
make("mxfp4", mxfp4, {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})
make("nvfp4", lambda c, n, e: nvfp4(c, n, e, False), {"quant_method": "modelopt", "quant_algo": "NVFP4"})
make("nvfp4_packed", lambda c, n, e: nvfp4(c, n, e, True),
     {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})
make("int4", int4, {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
    "group_0": {"weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}}}})
make_mlx("mlx")

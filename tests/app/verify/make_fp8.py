#!/usr/bin/env python3
"""Writes a Hugging Face directory in FP8 as DeepSeek publishes its models, and one with the same numbers in F32.

usage: make_fp8.py SOURCE FP8 DECODED BLOCK_ROWS BLOCK_COLUMNS

Every matrix but embeddings, head and router becomes F8_E4M3 with one F32 factor a block in X.weight_scale_inv; a number
is e4m3 * factor. Written from the formats' definitions, without any code of Sluice.
"""
import bisect
import json
import os
import shutil
import struct
import sys


def e4m3(byte):
    exponent, mantissa = byte >> 3 & 15, byte & 7
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if byte & 128 else magnitude


POSITIVE = [e4m3(byte) for byte in range(127)]  # 127 and 255 are NaN


def encode(x):
    at = bisect.bisect_left(POSITIVE, abs(x))
    near = [i for i in (at - 1, at) if 0 <= i < len(POSITIVE)]
    byte = min(near, key=lambda i: (abs(POSITIVE[i] - abs(x)), i & 1))
    return byte | (128 if x < 0 else 0)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield name, tensor["dtype"], tensor["shape"], data[begin:end]


def write(path, tensors):
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write(tensor[3])


def floats(dtype, data):
    if dtype == "F32":
        return struct.unpack(f"<{len(data) // 4}f", data)
    assert dtype == "BF16", dtype
    halves = struct.unpack(f"<{len(data) // 2}H", data)
    return struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves)))


def in_blocks(numbers, shape, block):
    """The bytes, the factors row by row, and what they decode to."""
    rows, columns = shape
    grid = [-(-rows // block[0]), -(-columns // block[1])]
    largest = [0.0] * (grid[0] * grid[1])

    def block_of(i):
        return i // columns // block[0] * grid[1] + i % columns // block[1]

    for i, x in enumerate(numbers):
        largest[block_of(i)] = max(largest[block_of(i)], abs(x))
    factors = [f32(x / 448 or 1.0) for x in largest]
    codes = bytes(encode(x / factors[block_of(i)]) for i, x in enumerate(numbers))
    decoded = [f32(e4m3(code) * factors[block_of(i)]) for i, code in enumerate(codes)]
    return codes, grid, factors, decoded


def main():
    source, fp8, decoded = sys.argv[1:4]
    block = [int(sys.argv[4]), int(sys.argv[5])]
    for folder in (fp8, decoded):
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "golden*"))
    in_fp8, in_f32 = [], []
    for name, dtype, shape, data in read(os.path.join(source, "model.safetensors")):
        kept = len(shape) != 2 or any(part in name for part in ("embed_tokens", "lm_head", "mlp.gate.weight"))
        if kept:
            in_fp8.append((name, dtype, shape, data))
            in_f32.append((name, dtype, shape, data))
            continue
        codes, grid, factors, numbers = in_blocks(floats(dtype, data), shape, block)
        in_fp8.append((name, "F8_E4M3", shape, codes))
        in_fp8.append((name + "_scale_inv", "F32", grid, struct.pack(f"<{len(factors)}f", *factors)))
        in_f32.append((name, "F32", shape, struct.pack(f"<{len(numbers)}f", *numbers)))
    write(os.path.join(fp8, "model.safetensors"), in_fp8)
    write(os.path.join(decoded, "model.safetensors"), in_f32)
    config_path = os.path.join(fp8, "config.json")
    with open(config_path) as file:
        config = json.load(file)
    config["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                     "weight_block_size": block}
    os.chmod(config_path, 0o644)
    with open(config_path, "w") as file:
        json.dump(config, file)


main()

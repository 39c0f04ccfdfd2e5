#!/usr/bin/env python3
"""Writes mixes.txt from llama.cpp's snapshots of what its quantiser chooses for real models.

    tests/data/peer/make_mixes.py LLAMA_CPP/tests/snapshots > tests/data/peer/mixes.txt

LLAMA_CPP: commit de3ff815ea7d559ee917f063901b8986f038abc6, the tree inside npm node-llama-cpp 3.22.1. A snapshot has the
tensors whose format is not the mix's own; names are taken from its MXFP4_MOE part (all but stacked matrices) and the
stacked matrices from STACKED. Widths of rows are from the models' public configurations, as below.
"""
import collections
import re
import sys

MIXES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS "
         "MXFP4_MOE").split()
# Columns of a tensor by name; "" is the width of the residual stream.
COLUMNS = {
    "deepseek-v3.1": {"": 7168, "attn_output": 16384, "attn_q_b": 1536, "attn_k_b": 128, "attn_v_b": 512,
                      "ffn_down": 18432, "ffn_down_exps": 2048, "ffn_down_shexp": 2048},
    "gemma-3-4b-it": {"": 2560, "attn_output": 2048, "ffn_down": 10240},
    "gpt-oss-120b": {"": 2880, "attn_output": 4096, "ffn_down_exps": 2880},
    "nvidia-nemotron-3-nano-30b-a3b": {"": 2688, "attn_output": 4096, "ffn_down_exps": 1856, "ffn_down_shexp": 3712,
                                       "ssm_out": 4096},
    "qwen3-coder-next": {"": 2048, "attn_output": 4096, "ffn_down_exps": 512, "ffn_down_shexp": 512, "ssm_out": 4096},
    "qwen3.5-397b-a17b": {"": 4096, "attn_output": 8192, "ffn_down_exps": 1024, "ffn_down_shexp": 1024,
                          "ssm_out": 8192},
    "qwen3.6-27b": {"": 5120, "attn_output": 6144, "ffn_down": 17408, "ssm_out": 6144},
}
# Stacked matrices and the first layer that has them.
GATED = ("ffn_down_exps", "ffn_gate_exps", "ffn_up_exps")
STACKED = {
    "deepseek-v3.1": [("attn_k_b", 0), ("attn_v_b", 0)] + [(name, 3) for name in GATED],
    "gpt-oss-120b": [(name, 0) for name in GATED],
    "qwen3-coder-next": [(name, 0) for name in GATED],
    "qwen3.5-397b-a17b": [(name, 0) for name in GATED],
}


def runs(layers):
    parts = []
    for layer in sorted(layers):
        if parts and parts[-1][1] == layer - 1:
            parts[-1][1] = layer
        else:
            parts.append([layer, layer])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def collected(names):
    """Names as {pattern: layers}: blk.N.x.weight stands for each layer; no layer is -1."""
    found = collections.defaultdict(list)
    for name in names:
        match = re.match(r"blk\.(\d+)\.(.*)", name)
        found[f"blk.N.{match[2]}" if match else name].append(int(match[1]) if match else -1)
    return {pattern: "-" if layers == [-1] else runs(layers) for pattern, layers in found.items()}


def read(path):
    facts, mixes, mix = {}, {}, None
    for line in open(path):
        line = line.strip()
        if line.startswith("# n_embd"):
            facts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
        elif line.startswith("["):
            mix, base = line[1:].split("] ")
            mixes[mix] = (base, {})
        elif line and line[0] != "#":
            name, chosen = line.split(" ")
            mixes[mix][1][name] = chosen
    return facts, mixes


def main(folder):
    print("# Formats that llama.cpp's quantiser chooses. Written by make_mixes.py, which says from what.")
    print("# tensor: name, layers it is in (N; - for none), columns, matrices in it (1, or 2 for several)")
    print("# mix: name, its own format; below it the tensors of another one")
    for model, columns in COLUMNS.items():
        facts, mixes = read(f"{folder}/{model}.schema")
        print(f"model {model} layers {facts['n_layer']} heads {facts['n_head']} kv_heads {facts['n_head_kv']} "
              f"experts {facts.get('n_expert', 0)}")
        stacked = {f"blk.{layer}.{name}.weight" for name, first in STACKED.get(model, [])
                   for layer in range(first, facts["n_layer"])}
        if model.startswith("nvidia"):  # experts only in some layers, found where their rows are no whole blocks
            stacked = {name for name in mixes["Q4_K_M"][1] if "_exps." in name}
        flat = [name for name in mixes["MXFP4_MOE"][1] if name not in stacked]
        for names, matrices in ((flat, 1), (stacked, 2)):
            for pattern, layers in sorted(collected(names).items()):
                width = columns.get(pattern.split(".")[-2], columns[""])
                print(f"tensor {pattern} {layers} {width} {matrices}")
        for mix in MIXES:
            base, others = mixes[mix]
            print(f"mix {mix.lower()} {base.lower()}")
            for chosen in sorted(set(others.values())):
                for pattern, layers in sorted(collected(n for n, t in others.items() if t == chosen).items()):
                    print(f"{chosen.lower()} {pattern} {layers}")


main(sys.argv[1])

#!/usr/bin/env python3
"""make_big_checkpoint.py FOLDER GIGABYTES: a sharded Gemma 4 checkpoint of about that size, all zeros, in sparse files.

It shows whether a command streams: the files take no disk space, but reading them takes as many bytes as a real model.
"""

import json
import pathlib
import shutil
import sys

SHARD_BYTES = 4_000_000_000


def text_config(layers):
    return {
        "model_type": "gemma4_text", "vocab_size": 768, "hidden_size": 5376, "intermediate_size": 21504,
        "num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": 16,
        "num_global_key_value_heads": 4, "attention_k_eq_v": True, "head_dim": 256, "global_head_dim": 512,
        "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "sliding_window": 1024,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh", "pad_token_id": 0, "tie_word_embeddings": True,
        "enable_moe_block": False,
        "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}}


def layer_shapes(config, i):
    full = config["layer_types"][i] == "full_attention"
    hidden, width = config["hidden_size"], config["intermediate_size"]
    head = config["global_head_dim"] if full else config["head_dim"]
    q = config["num_attention_heads"] * head
    kv = (config["num_global_key_value_heads"] if full else config["num_key_value_heads"]) * head
    shapes = {"self_attn.q_proj.weight": [q, hidden], "self_attn.k_proj.weight": [kv, hidden],
              "self_attn.o_proj.weight": [hidden, q], "self_attn.q_norm.weight": [head],
              "self_attn.k_norm.weight": [head], "mlp.gate_proj.weight": [width, hidden],
              "mlp.up_proj.weight": [width, hidden], "mlp.down_proj.weight": [hidden, width], "layer_scalar": [1]}
    if not full:
        shapes["self_attn.v_proj.weight"] = [kv, hidden]
    for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
        shapes[f"{norm}_layernorm.weight"] = [hidden]
    return {f"model.language_model.layers.{i}.{name}": shape for name, shape in shapes.items()}


def size_of(shape):
    elements = 1
    for n in shape:
        elements *= n
    return 2 * elements


def write_shard(path, shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size_of(shape)]}
        at += size_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


def main():
    folder, wanted = pathlib.Path(sys.argv[1]), float(sys.argv[2]) * 1e9
    folder.mkdir(parents=True)
    one = sum(size_of(s) for s in layer_shapes(text_config(1), 0).values())
    config = text_config(max(1, round(wanted / one)))
    shapes = {"model.language_model.embed_tokens.weight": [768, 5376], "model.language_model.norm.weight": [5376]}
    for i in range(config["num_hidden_layers"]):
        shapes.update(layer_shapes(config, i))
    shards, filled = [{}], 0
    for name, shape in shapes.items():
        if filled + size_of(shape) > SHARD_BYTES:
            shards.append({})
            filled = 0
        shards[-1][name] = shape
        filled += size_of(shape)
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, shard)
        weight_map.update({tensor: name for tensor in shard})
    index = {"metadata": {"total_size": sum(map(size_of, shapes.values()))}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma4", "text_config": config}))
    source = pathlib.Path(__file__).resolve().parent.parent / "tests/data/gemma4_dense"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    print(f"{folder}: {len(shards)} shards, {index['metadata']['total_size'] / 1e9:.1f} GB")


if __name__ == "__main__":
    main()

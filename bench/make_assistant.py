#!/usr/bin/env python3
"""Writes a made-up assistant for Gemma 4 E2B: a directory as Hugging Face has it, with random weights in bf16.

    bench/make_assistant.py FOLDER [--whole-head]

It is for measuring what drafting costs (`sluice bench --recorded ... --draft-model FOLDER --draft-right SHARE`). The widths
are those that the text model fixes; hidden size, heads and feed-forward width give the 78 M parameters of the real one.
With --whole-head the head has no clusters.
"""
import json
import math
import os
import random
import struct
import sys

VOCABULARY, BACKBONE, HIDDEN, HEADS, FEED_FORWARD = 262144, 1536, 256, 4, 2048
HEAD_DIM, FULL_HEAD_DIM, KEY_HEADS, WINDOW = 256, 512, 1, 512
CLUSTERS, LOOKED_AT = 2048, 32
KINDS = ["sliding_attention"] * 3 + ["full_attention"]


def bf16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def config(whole_head):
    text = {
        "model_type": "gemma4_text", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": len(KINDS),
        "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "num_global_key_value_heads": KEY_HEADS,
        "attention_k_eq_v": False, "head_dim": HEAD_DIM, "global_head_dim": FULL_HEAD_DIM,
        "intermediate_size": FEED_FORWARD, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
        "max_position_embeddings": 131072, "sliding_window": WINDOW, "layer_types": KINDS, "num_kv_shared_layers": 4,
        "hidden_size_per_layer_input": 0, "enable_moe_block": False, "use_double_wide_mlp": False,
        "tie_word_embeddings": True, "final_logit_softcapping": None,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}}
    return {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "dtype": "bfloat16",
            "backbone_hidden_size": BACKBONE, "use_ordered_embeddings": not whole_head, "num_centroids": CLUSTERS,
            "centroid_intermediate_top_k": LOOKED_AT, "text_config": text}


def shapes(whole_head):
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "pre_projection.weight", [HIDDEN, 2 * BACKBONE]
    yield "post_projection.weight", [BACKBONE, HIDDEN]
    if not whole_head:
        yield "masked_embedding.centroids.weight", [CLUSTERS, HIDDEN]
    for layer, kind in enumerate(KINDS):
        width = FULL_HEAD_DIM if kind == "full_attention" else HEAD_DIM
        begin = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"):
            yield f"{begin}{norm}.weight", [HIDDEN]
        yield begin + "layer_scalar", [1]
        yield begin + "self_attn.q_proj.weight", [HEADS * width, HIDDEN]
        yield begin + "self_attn.q_norm.weight", [width]
        yield begin + "self_attn.o_proj.weight", [HIDDEN, HEADS * width]
        yield begin + "mlp.gate_proj.weight", [FEED_FORWARD, HIDDEN]
        yield begin + "mlp.up_proj.weight", [FEED_FORWARD, HIDDEN]
        yield begin + "mlp.down_proj.weight", [HIDDEN, FEED_FORWARD]


def contents(shape, noise):
    """Norms and scalars are ones. Matrices repeat normal numbers, a prime number of them."""
    count = math.prod(shape)
    if len(shape) == 1:
        return bf16([1.0]) * count
    pattern = bf16([value / math.sqrt(shape[-1]) for value in noise])
    return (pattern * (2 * count // len(pattern) + 1))[:2 * count]


def main():
    folder, whole_head = sys.argv[1], "--whole-head" in sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    noise = [random.Random(i).gauss(0, 1) for i in range(65521)]
    header, offset, pieces = {}, 0, []
    for name, shape in shapes(whole_head):
        pieces.append(contents(shape, noise))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(pieces[-1])]}
        offset += len(pieces[-1])
    if not whole_head:
        order = list(range(VOCABULARY))
        random.Random(1).shuffle(order)
        pieces.append(struct.pack(f"<{VOCABULARY}q", *order))
        header["masked_embedding.token_ordering"] = {"dtype": "I64", "shape": [VOCABULARY],
                                                     "data_offsets": [offset, offset + len(pieces[-1])]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for piece in pieces:
            file.write(piece)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config(whole_head), file, indent=1)


main()

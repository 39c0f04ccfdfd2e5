#!/usr/bin/env python3
"""Logits of heads for multi-token prediction, in double precision and from the papers alone.

Writes qwen3_5_moe/draft_head.json and deepseek_v3/draft_head.json: what a head whose numbers come from their names gives
for twelve tokens and twelve hidden rows made likewise. Embeddings and the last matrix are the folder's model's. Needs
nothing but Python: python3 tests/data/make_draft_heads.py
"""
import json
import math
import os
import struct

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROWS, HIDDEN, VOCABULARY = 12, 64, 768
TOKENS = [(37 * i + 5) % VOCABULARY for i in range(ROWS)]
WANTED = [0, 5, 11]
MASK = (1 << 64) - 1


def numbers(name, count):
    """Of [-1, 1), each exact in f32: splitmix64 from the FNV-1a hash of the name."""
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    out = []
    for i in range(count):
        x = (h + (i + 1) * 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
        out.append((x >> 40) / (1 << 23) - 1.0)
    return out


def matrix(name, rows, columns):
    flat = [0.25 * x for x in numbers(name, rows * columns)]
    return [flat[r * columns : (r + 1) * columns] for r in range(rows)]


def vector(name, columns, middle):
    return [middle + 0.25 * x for x in numbers(name, columns)]


def stored(folder, name):
    """A BF16 matrix of model.safetensors."""
    with open(os.path.join(FOLDER, folder, "model.safetensors"), "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        entry = json.loads(f.read(length))[name]
        begin, end = entry["data_offsets"]
        f.seek(8 + length + begin)
        raw = f.read(end - begin)
    values = [struct.unpack("<f", b"\0\0" + raw[i : i + 2])[0] for i in range(0, len(raw), 2)]
    columns = entry["shape"][1]
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def times(m, x):
    return [dot(row, x) for row in m]


def plus(a, b):
    return [x + y for x, y in zip(a, b)]


def rms(x, weight, eps=1e-6):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [v * scale * w for v, w in zip(x, weight)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def swiglu(gate, up, down, x):
    return times(down, [g * sigmoid(g) * u for g, u in zip(times(gate, x), times(up, x))])


def attend(q, keys, values, scale):
    scores = [scale * dot(q, k) for k in keys]
    top = max(scores)
    shares = [math.exp(s - top) for s in scores]
    total = math.fsum(shares)
    return [math.fsum(s * v[c] for s, v in zip(shares, values)) / total for c in range(len(values[0]))]


def best(scores, count, allowed=None):
    order = sorted((i for i in range(len(scores)) if allowed is None or i in allowed), key=lambda i: (-scores[i], i))
    return order[:count]


def join(names, embeddings):
    """z = fc [norm(embedding); norm(hidden)] for every row."""
    fc = matrix(names[0], HIDDEN, 2 * HIDDEN)
    e_norm, h_norm = vector(names[1], HIDDEN, 1), vector(names[2], HIDDEN, 1)
    hidden = numbers("hidden", ROWS * HIDDEN)
    rows = []
    for i, token in enumerate(TOKENS):
        row = hidden[i * HIDDEN : (i + 1) * HIDDEN]
        rows.append(times(fc, rms(embeddings[token], e_norm) + rms(row, h_norm)))
    return rows


def qwen():
    """Qwen3.5 with experts: gated full attention of two heads on one of keys, a quarter of which turns."""
    folder, at = "qwen3_5_moe", "mtp.layers.0."
    xs = join(["mtp.fc.weight", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight"],
              stored(folder, "model.language_model.embed_tokens.weight"))
    heads, dim, turned = 2, 64, 16
    w_in = vector(at + "input_layernorm.weight", HIDDEN, 1)
    w_post = vector(at + "post_attention_layernorm.weight", HIDDEN, 1)
    q_proj = matrix(at + "self_attn.q_proj.weight", 2 * heads * dim, HIDDEN)
    k_proj = matrix(at + "self_attn.k_proj.weight", dim, HIDDEN)
    v_proj = matrix(at + "self_attn.v_proj.weight", dim, HIDDEN)
    o_proj = matrix(at + "self_attn.o_proj.weight", HIDDEN, heads * dim)
    q_norm, k_norm = vector(at + "self_attn.q_norm.weight", dim, 1), vector(at + "self_attn.k_norm.weight", dim, 1)

    def turn(x, position):
        out = list(x)
        for i in range(turned // 2):
            angle = position * 1e7 ** (-2 * i / turned)
            a, b = x[i], x[i + turned // 2]
            out[i] = a * math.cos(angle) - b * math.sin(angle)
            out[i + turned // 2] = b * math.cos(angle) + a * math.sin(angle)
        return out

    router = matrix(at + "mlp.gate.weight", 16, HIDDEN)
    gate_up = matrix(at + "mlp.experts.gate_up_proj", 16 * 64, HIDDEN)
    down = matrix(at + "mlp.experts.down_proj", 16 * HIDDEN, 32)
    shared = [matrix(at + f"mlp.shared_expert.{n}_proj.weight", 64, 64) for n in ("gate", "up", "down")]
    shared_gate = matrix(at + "mlp.shared_expert_gate.weight", 1, HIDDEN)
    keys, values, out = [], [], []
    for position, x in enumerate(xs):
        h = rms(x, w_in)
        keys.append(turn(rms(times(k_proj, h), k_norm), position))
        values.append(times(v_proj, h))
        both, result = times(q_proj, h), []
        for head in range(heads):
            q = turn(rms(both[2 * head * dim : (2 * head + 1) * dim], q_norm), position)
            gate = both[(2 * head + 1) * dim : (2 * head + 2) * dim]
            result += [a * sigmoid(g) for a, g in zip(attend(q, keys, values, dim**-0.5), gate)]
        x = plus(x, times(o_proj, result))
        h = rms(x, w_post)
        logits = times(router, h)
        chosen = best(logits, 4)
        total = math.fsum(math.exp(logits[e]) for e in chosen)
        y = [sigmoid(shared_gate_row) * v for shared_gate_row in times(shared_gate, h) for v in swiglu(*shared, h)]
        for e in chosen:
            given = swiglu(gate_up[64 * e : 64 * e + 32], gate_up[64 * e + 32 : 64 * e + 64],
                           down[HIDDEN * e : HIDDEN * (e + 1)], h)
            y = plus(y, [math.exp(logits[e]) / total * v for v in given])
        out.append(plus(x, y))
    write(folder, out, vector("mtp.norm.weight", HIDDEN, 1))


def deepseek():
    """DeepSeek-V3: latent attention of four heads, experts in groups by sigmoid."""
    folder, at = "deepseek_v3", "model.layers.4."
    xs = join([at + "eh_proj.weight", at + "enorm.weight", at + "hnorm.weight"],
              stored(folder, "model.embed_tokens.weight"))
    heads, nope, turned, latent, value = 4, 32, 16, 64, 32
    w_in = vector(at + "input_layernorm.weight", HIDDEN, 1)
    w_post = vector(at + "post_attention_layernorm.weight", HIDDEN, 1)
    attention = at + "self_attn."
    q_a, q_a_norm = matrix(attention + "q_a_proj.weight", 64, HIDDEN), vector(attention + "q_a_layernorm.weight", 64, 1)
    q_b = matrix(attention + "q_b_proj.weight", heads * (nope + turned), 64)
    kv_a = matrix(attention + "kv_a_proj_with_mqa.weight", latent + turned, HIDDEN)
    kv_a_norm = vector(attention + "kv_a_layernorm.weight", latent, 1)
    kv_b = matrix(attention + "kv_b_proj.weight", heads * (nope + value), latent)
    o_proj = matrix(attention + "o_proj.weight", HIDDEN, heads * value)

    base, factor, original, fast, slow = 10000.0, 40.0, 4096, 32, 1
    bound = lambda turns: turned * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(bound(fast)), 0), min(math.ceil(bound(slow)), turned - 1)
    frequencies = []
    for i in range(turned // 2):
        plain = base ** (-2 * i / turned)
        ramp = min(max((i - low) / max(high - low, 0.001), 0), 1)
        frequencies.append(plain / factor * ramp + plain * (1 - ramp))
    stretch = 1 + 0.1 * math.log(factor)
    scale = stretch * stretch / math.sqrt(nope + turned)

    def turn(x, position):
        out = []
        for i, frequency in enumerate(frequencies):
            a, b, angle = x[2 * i], x[2 * i + 1], position * frequency
            out += [a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)]
        return out

    router = matrix(at + "mlp.gate.weight", 16, HIDDEN)
    bias = vector(at + "mlp.gate.e_score_correction_bias", 16, 0)
    experts = [[matrix(at + f"mlp.experts.{e}.{n}_proj.weight", r, c) for n, r, c in
                (("gate", 32, 64), ("up", 32, 64), ("down", 64, 32))] for e in range(16)]
    shared = [matrix(at + f"mlp.shared_experts.{n}_proj.weight", r, c) for n, r, c in
              (("gate", 32, 64), ("up", 32, 64), ("down", 64, 32))]
    keys, values, out = [[] for _ in range(heads)], [[] for _ in range(heads)], []
    for position, x in enumerate(xs):
        h = rms(x, w_in)
        kv = times(kv_a, h)
        expanded, pe = times(kv_b, rms(kv[:latent], kv_a_norm)), turn(kv[latent:], position)
        queries, result = times(q_b, rms(times(q_a, h), q_a_norm)), []
        for head in range(heads):
            own = expanded[head * (nope + value) : (head + 1) * (nope + value)]
            keys[head].append(own[:nope] + pe)
            values[head].append(own[nope:])
            q = queries[head * (nope + turned) : (head + 1) * (nope + turned)]
            result += attend(q[:nope] + turn(q[nope:], position), keys[head], values[head], scale)
        x = plus(x, times(o_proj, result))
        h = rms(x, w_post)
        scores = [sigmoid(s) for s in times(router, h)]
        choice = plus(scores, bias)
        groups = [math.fsum(sorted(choice[4 * g : 4 * g + 4])[-2:]) for g in range(4)]
        allowed = {e for g in best(groups, 2) for e in range(4 * g, 4 * g + 4)}
        chosen = best(choice, 4, allowed)
        total = math.fsum(scores[e] for e in chosen)
        y = swiglu(*shared, h)
        for e in chosen:
            y = plus(y, [2.5 * scores[e] / total * v for v in swiglu(*experts[e], h)])
        out.append(plus(x, y))
    write(folder, out, vector(at + "shared_head.norm.weight", HIDDEN, 1))


def write(folder, rows, norm):
    head = stored(folder, "lm_head.weight")
    logits = [[round(v, 6) for v in times(head, rms(rows[i], norm))] for i in WANTED]
    with open(os.path.join(FOLDER, folder, "draft_head.json"), "w") as f:
        json.dump({"tokens": TOKENS, "wanted": WANTED, "logits": logits}, f, separators=(",", ":"))
        f.write("\n")


qwen()
deepseek()

#!/usr/bin/env python3
"""Times a LoRA training step of Gemma 4 E2B's shape in PyTorch, as peft arranges it: frozen bf16 weights, trained factors.

    python3 bench/torch_lora.py [--tokens 512] [--rank 16] [--threads 2] [--device cpu|cuda] [--steps 2] [--recompute]

The products, their sizes, attention's windows, the keys that layers share, the embeddings of each layer and the loss
over the whole vocabulary are those of `sluice bench --shape gemma4-e2b --train 512`; the weights are random. Factors are
in f32 and products in bf16, as peft and transformers train such a model. Tables of embeddings have few rows, since a step
reads only some. --recompute makes each layer's activations again in the backward pass, as Sluice does (gradient
checkpointing). Needs PyTorch alone (Debian's python3-torch).
"""

import argparse
import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

HIDDEN, LAYERS, SHARED, HEADS, INNER, PER_LAYER, VOCABULARY, WINDOW = 1536, 35, 20, 8, 6144, 256, 262144, 512
ROWS_OF_TABLES = 4096


def weight(rows, columns, options):
    return torch.randn(rows, columns, device=options.device).mul_(columns**-0.5).bfloat16()


class Lora(torch.nn.Module):
    """y = W x + scale B (A x)"""

    def __init__(self, rows, columns, options):
        super().__init__()
        self.frozen = weight(rows, columns, options)
        self.a = torch.nn.Parameter(torch.randn(options.rank, columns, device=options.device) * columns**-0.5)
        self.b = torch.nn.Parameter(torch.zeros(rows, options.rank, device=options.device))
        self.scale = 2.0

    def forward(self, x):
        low_rank = F.linear(F.linear(x, self.a.bfloat16()), self.b.bfloat16())
        return F.linear(x, self.frozen) + self.scale * low_rank


def norm(x):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def turn(x, table):
    cos, sin = table
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Layer(torch.nn.Module):
    def __init__(self, number, options):
        super().__init__()
        self.full = number % 5 == 4
        self.width = 512 if self.full else 256
        self.own_keys = number < LAYERS - SHARED
        inner = INNER if self.own_keys else 2 * INNER
        self.q = Lora(HEADS * self.width, HIDDEN, options)
        if self.own_keys:
            self.k = Lora(self.width, HIDDEN, options)
            self.v = Lora(self.width, HIDDEN, options)
        self.o = Lora(HIDDEN, HEADS * self.width, options)
        self.gate = Lora(inner, HIDDEN, options)
        self.up = Lora(inner, HIDDEN, options)
        self.down = Lora(HIDDEN, inner, options)
        self.per_layer_gate = Lora(PER_LAYER, HIDDEN, options)
        self.per_layer_out = Lora(HIDDEN, PER_LAYER, options)

    def forward(self, x, per_layer, keys, values, table, mask):
        h = norm(x)
        rows = x.shape[0]
        q = turn(norm(self.q(h).view(rows, HEADS, self.width)), table)
        if self.own_keys:
            keys = turn(norm(self.k(h).view(rows, 1, self.width)), table)
            values = norm(self.v(h).view(rows, 1, self.width))
        scores = torch.einsum("qhd,kd->hqk", q, keys[:, 0]).float() + mask
        mixed = torch.einsum("hqk,kd->qhd", scores.softmax(-1).to(x.dtype), values[:, 0])
        x = x + norm(self.o(mixed.reshape(rows, -1)))
        h = norm(x)
        x = x + norm(self.down(F.gelu(self.gate(h), **TANH) * self.up(h)))
        h = F.gelu(self.per_layer_gate(x), **TANH) * per_layer
        return x + norm(self.per_layer_out(h)), keys, values


TANH = {"approximate": "tanh"}


class Model(torch.nn.Module):
    def __init__(self, options):
        super().__init__()
        self.recompute = options.recompute
        self.embedding = weight(ROWS_OF_TABLES, HIDDEN, options)
        self.per_layer = weight(ROWS_OF_TABLES, LAYERS * PER_LAYER, options)
        self.projection = Lora(LAYERS * PER_LAYER, HIDDEN, options)
        self.layers = torch.nn.ModuleList(Layer(i, options) for i in range(LAYERS))
        self.head = Lora(VOCABULARY, HIDDEN, options)

    def forward(self, tokens, targets):
        rows = tokens.shape[0]
        at = torch.arange(rows, device=tokens.device)
        x = F.embedding(tokens % ROWS_OF_TABLES, self.embedding)
        per_layer = F.embedding(tokens % ROWS_OF_TABLES, self.per_layer) + self.projection(x)
        per_layer = norm(per_layer.view(rows, LAYERS, PER_LAYER))
        seen = at[:, None] >= at[None, :]
        masks = {full: torch.where(seen if full else seen & (at[:, None] - at[None, :] < WINDOW), 0.0, -torch.inf)
                 for full in (True, False)}
        tables = {}
        for full in (True, False):
            width = 512 if full else 256
            angles = at[:, None] / 1e4 ** (torch.arange(width // 2, device=tokens.device) * 2 / width)
            tables[full] = (angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype))
        kept = {True: (None, None), False: (None, None)}
        for i, layer in enumerate(self.layers):
            arguments = (x, per_layer[:, i], *kept[layer.full], tables[layer.full], masks[layer.full])
            if self.recompute and i > 0:
                x, keys, values = checkpoint(layer, *arguments)
            else:
                x, keys, values = layer(*arguments)
            kept[layer.full] = (keys, values)
        logits = self.head(norm(x)).float()
        return F.cross_entropy(30 * torch.tanh(logits / 30), targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--recompute", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = Model(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    tokens = torch.randint(0, VOCABULARY, (options.tokens + 1,), device=options.device)
    times = []
    for step in range(options.steps + 1):
        began = time.time()
        loss = model(tokens[:-1], tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()  # waits for a GPU
        if step > 0:  # the first one makes the optimizer's state
            times.append(time.time() - began)
    median = statistics.median(times)
    print(f"torch {torch.__version__}, {options.device}, {options.tokens} tokens, rank {options.rank}"
          f"{', layers made again' if options.recompute else ''}: {median:.3f} s a step "
          f"({min(times):.3f} to {max(times):.3f}), {options.tokens / median:.1f} tokens/s, loss {value:.2f}")


if __name__ == "__main__":
    main()

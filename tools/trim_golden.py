#!/usr/bin/env python3
"""trim_golden.py GOLDEN.json FOLDER: writes the text and chat cases of the demo's golden to FOLDER.

tests/data/gemma4 was made with it. The golden is too large to keep whole, so these stay:
- logits of each case's last positions; those of a first token are left to the case `one_token`.
- values within the first and the last layer, and the residual stream at a few layers. The small models' goldens, which
  are kept whole, have the other kinds of layers.
"""

import json
import pathlib
import struct
import sys

KINDS = ("text", "chat")
POSITIONS = 4
LAYERS = ("0", "7")
STREAMS = ("0", "1", "4", "8")


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (info, data) in tensors.items():
        header[name] = {"dtype": info["dtype"], "shape": info["shape"], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def is_kept(name):
    kind, _, rest = name.partition(".")
    if kind == "layer":
        return rest.partition(".")[0] in LAYERS
    return kind != "hidden" or rest in STREAMS


def trim_positions(case, info, data):
    """The logits' (info, data) with the case's last positions alone; changes the case."""
    kept = [i for i, position in enumerate(case["positions"]) if position > 0 or len(case["positions"]) == 1][-POSITIONS:]
    row = len(data) // len(case["positions"])
    case["positions"] = [case["positions"][i] for i in kept]
    return dict(info, shape=[len(kept), *info["shape"][1:]]), b"".join(data[i * row : (i + 1) * row] for i in kept)


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    golden = json.loads(source.read_text())
    golden["cases"] = [case for case in golden["cases"] if case["kind"] in KINDS]
    header, body = read_safetensors(source.with_suffix(".safetensors"))
    tensors = {}
    for case in golden["cases"]:
        case["tensors"] = {name: key for name, key in case["tensors"].items() if is_kept(name)}
        for name, key in case["tensors"].items():
            begin, end = header[key]["data_offsets"]
            tensors[key] = (header[key], body[begin:end])
            if name == "logits":
                tensors[key] = trim_positions(case, *tensors[key])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    write_safetensors(folder / "golden.safetensors", tensors)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""trim_golden.py GOLDEN.json FOLDER: writes a golden's text and chat cases, and their tensors, to FOLDER.

tests/data/gemma4 was made with it from the demo's golden, which is too large to keep whole.
"""

import json
import pathlib
import struct
import sys

KINDS = ("text", "chat")


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


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    golden = json.loads(source.read_text())
    golden["cases"] = [case for case in golden["cases"] if case["kind"] in KINDS]
    header, body = read_safetensors(source.with_suffix(".safetensors"))
    tensors = {}
    for case in golden["cases"]:
        for key in case["tensors"].values():
            begin, end = header[key]["data_offsets"]
            tensors[key] = (header[key], body[begin:end])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    write_safetensors(folder / "golden.safetensors", tensors)


if __name__ == "__main__":
    main()

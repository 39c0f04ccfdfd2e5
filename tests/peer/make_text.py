#!/usr/bin/env python3
"""Writes BYTES of composed (NFC) text, half of it taken from the files of a source tree, half random.

    make_text.py SOURCE BYTES [SEED] > text.txt

The random half has words of many scripts, runs of spaces and line ends, numbers, signs, emoji with their joiners,
contractions, and characters drawn from all that this Python's Unicode assigns.
"""

import pathlib
import random
import sys
import unicodedata

SUFFIXES = {".md", ".cpp", ".h", ".py", ".txt", ".jinja", ".inp", ".json", ".ts", ".sh", ".cu", ".yml", ".html"}
SCRIPTS = [(0x61, 0x7B), (0x41, 0x5B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x531, 0x587), (0x5D0, 0x5EB),
           (0x620, 0x64B), (0x900, 0x980), (0x980, 0xA00), (0xE01, 0xE5C), (0x10A0, 0x1100), (0x1200, 0x1380),
           (0x1780, 0x17D4), (0x1E00, 0x1F00), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4)]
SIGNS = list(".,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`") + ["…", "—", "«", "»", "“", "”", "€", "₿", "→", "∑", "。", "、", "！"]
SPACES = [" "] * 12 + ["  ", "    ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u200b"]
EMOJI = ["😀", "🚀", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪", "👍🏽", "✅", "❤️", "🦙"]
TAILS = ["'s", "'t", "'re", "'VE", "'m", "'LL", "'d", "n't", "’s"]
ASSIGNED = [chr(c) for c in range(0x20, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def word(draw):
    low, high = draw.choice(SCRIPTS)
    return "".join(chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 9)))


def number(draw):
    return draw.choice([str(draw.randrange(10 ** draw.randint(1, 12))), f"{draw.random():.6g}", "½", "²", "٣٤", "Ⅷ"])


def random_text(draw, characters):
    kinds = [lambda: word(draw), lambda: word(draw), lambda: word(draw), lambda: number(draw),
             lambda: draw.choice(SIGNS) * draw.choice([1, 1, 1, 2, 5]), lambda: draw.choice(EMOJI),
             lambda: draw.choice(SPACES) * draw.choice([1, 1, 2, 7]), lambda: word(draw) + draw.choice(TAILS),
             lambda: "".join(draw.choice(ASSIGNED) for _ in range(draw.randint(1, 6)))]
    out, length = [], 0
    while length < characters:
        out.append(draw.choice(kinds)() + draw.choice(SPACES))
        length += len(out[-1])
    return "".join(out)


def taken_text(draw, texts):
    text = draw.choice(texts)
    begin = draw.randrange(max(1, len(text) - 2000))
    return text[begin:begin + 2000]


def main():
    source, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    files = sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    texts = [path.read_bytes().decode(errors="ignore") for path in files if path.stat().st_size > 200]
    parts, written = [], 0
    while written < size:
        parts += [taken_text(draw, texts), "\n", random_text(draw, 800), "\n"]
        written += sum(len(part.encode()) for part in parts[-4:])
    text = unicodedata.normalize("NFC", "".join(parts)).encode()
    sys.stdout.buffer.write(text[:size].decode(errors="ignore").encode())


if __name__ == "__main__":
    main()

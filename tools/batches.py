#!/usr/bin/env python3
"""batches.py MOST SOURCE...: groups sources that one compiler run may read together; prints one batch a line.

Most of a small source's compile time goes into the headers that it includes, so sources with the same flags are compiled
together: a batch is a file that includes at most MOST sources (cmake/batches.cmake). Two sources with the same private
name go into different batches, and so does a source with a private type that has the name of a public one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:template <[^\n]*>\s*)?(?:struct |class |enum class |enum |using (?=\w+ =))(\w+)", re.MULTILINE)
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
OTHER = re.compile(r"^(?!struct|class|enum|using|namespace|template|static_assert)(?=[A-Za-z])[^\n;=({]*?\b(\w+)\s*[;=({\[]", re.MULTILINE)
CONSTANTS = re.compile(r"^const(?:expr)? [^;]*;", re.MULTILINE)
FURTHER = re.compile(r",\s+(\w+)(?: = |\{)")
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
TEST = re.compile(r"TEST(_F|_P)?|INSTANTIATE_\w+|TYPED_TEST\w*|BENCHMARK\w*|public|testing")


def private_names(source):
    """Types, and other names, of a source's unnamed namespaces, near enough."""
    whole = RAW_STRING.sub("", source.read_text())
    text = "".join(UNNAMED.findall(whole))
    others = {name for name in OTHER.findall(text) if not TEST.fullmatch(name)}
    others.update(name for constants in CONSTANTS.findall(text) for name in FURTHER.findall(constants))
    return set(TYPE.findall(text)), others | set(MACRO.findall(whole))


def public_types():
    """Names of the types that headers declare."""
    headers = [header for folder in ("src", "tests", "fuzz") for header in (ROOT / folder).rglob("*.h")]
    return {name for header in headers for name in TYPE.findall(header.read_text())}


def batches_of(sources, most, public):
    """Lists of sources, in their order, that one compiler run may read."""
    alone, open_batches = [], []  # (sources, names)
    for source in sources:
        types, others = private_names(source)
        if types & public:
            alone.append([source])
            continue
        names = types | others
        place = next((b for b in open_batches if len(b[0]) < most and not b[1] & names), None)
        if place is None:
            place = ([], set())
            open_batches.append(place)
        place[0].append(source)
        place[1].update(names)
    return [batch for batch, _ in open_batches] + alone


def main():
    sources = [pathlib.Path(name) for name in sys.argv[2:]]
    for batch in batches_of(sources, int(sys.argv[1]), public_types()):
        print(" ".join(str(source) for source in batch))


if __name__ == "__main__":
    main()

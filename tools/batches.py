#!/usr/bin/env python3
"""batches.py MOST SOURCE...: groups sources that one compiler run may read together; prints one batch a line.

Most of a small source's compile time goes into the headers that it includes, so sources with the same flags are compiled
together: a batch is a file that includes at most MOST sources (cmake/batches.cmake). Two sources with the same private
name go into different batches. So do a source with a private type and one that sees a public type of that name, in a
header that it includes.
"""

import functools
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
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
TEST = re.compile(r"TEST(_F|_P)?|INSTANTIATE_\w+|TYPED_TEST\w*|BENCHMARK\w*|public|testing")


def private_names(source):
    """Types, and other names, of a source's unnamed namespaces, near enough."""
    whole = RAW_STRING.sub("", source.read_text())
    text = "".join(UNNAMED.findall(whole))
    others = {name for name in OTHER.findall(text) if not TEST.fullmatch(name)}
    others.update(name for constants in CONSTANTS.findall(text) for name in FURTHER.findall(constants))
    return set(TYPE.findall(text)), others | set(MACRO.findall(whole))


@functools.cache
def included(path):
    """The project's headers that a file includes itself."""
    places = (ROOT / "src", ROOT, path.parent)
    found = ([place / name for place in places] for name in INCLUDE.findall(path.read_text()))
    return frozenset(next((p.resolve() for p in paths if p.is_file()), None) for paths in found) - {None}


@functools.cache
def declared_types(header):
    return frozenset(TYPE.findall(header.read_text()))


def public_types(source):
    """Names of the types in all headers that a source includes, directly or not."""
    headers, left = set(), [source]
    while left:
        new = included(left.pop()) - headers
        headers |= new
        left.extend(new)
    return set().union(*(declared_types(header) for header in headers))


def batches_of(sources, most):
    """Lists of sources, in their order, that one compiler run may read."""
    batches = []  # (sources, private names, private types, public types)
    for source in sources:
        types, others = private_names(source)
        public = public_types(source)
        batch = next((b for b in batches if len(b[0]) < most and not b[1] & (types | others) and not b[2] & public
                      and not b[3] & types), None)
        if batch is None:
            batch = ([], set(), set(), set())
            batches.append(batch)
        batch[0].append(source)
        batch[1].update(types | others)
        batch[2].update(types)
        batch[3].update(public)
    return [batch[0] for batch in batches]


def main():
    sources = [pathlib.Path(name) for name in sys.argv[2:]]
    for batch in batches_of(sources, int(sys.argv[1])):
        print(" ".join(str(source) for source in batch))


if __name__ == "__main__":
    main()

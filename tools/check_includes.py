#!/usr/bin/env python3
"""Holds the includes of src/ to tools/include_table.txt: a folder includes only the folders its line names."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
TABLE = ROOT / "tools" / "include_table.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def read_table():
    table = {}
    for line in TABLE.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            folder, _, allowed = line.partition(":")
            table[folder.strip()] = allowed.split()
    for folder, words in table.items():
        allowed = {word for word in words if not word.startswith("-")}
        if "all" in allowed:
            allowed = set(table)
        table[folder] = (allowed | {folder}) - {word[1:] for word in words if word.startswith("-")}
    return table


def folder_of(path, table):
    """The most specific folder of the table that holds `path` (relative to src/)."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in table), None)


def faults_of(source, table):
    name = source.relative_to(SRC).as_posix()
    here = folder_of(name, table)
    if here is None:
        yield f"src/{name}: its folder is not in tools/include_table.txt"
        return
    for target in INCLUDE.findall(source.read_text()):
        there = folder_of(target, table)
        if there is None or not (SRC / target).is_file():
            yield f'src/{name} includes "{target}": want a path relative to src/ that exists'
        elif there not in table[here]:
            yield f'src/{name} includes "{target}": {here} may include {" ".join(sorted(table[here]))}'


def main():
    table = read_table()
    sources = sorted(path for path in SRC.rglob("*") if path.suffix in (".h", ".cpp", ".inc"))
    faults = [fault for source in sources for fault in faults_of(source, table)]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"includes: {len(sources)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

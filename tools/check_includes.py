#!/usr/bin/env python3
"""Checks the includes of src/ against tools/include_table.txt: a folder may include only the folders in its line, and if
the table lists public headers of a folder, other folders may include only these. No two headers of src/ and tests/ may
define a type of the same name in the same namespace: the linker would join their functions without a word (the one
definition rule), and an unoptimised program calls the wrong ones."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
TABLE = ROOT / "tools" / "include_table.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:class|struct|enum class|enum) (\w+)(?![\w:]{2})\b[^;]*$")


def types_of(header):
    """The types, with their namespaces, that a header defines; templates are left out."""
    spaces, before = [], ""
    for line in header.read_text().splitlines():
        if found := NAMESPACE.match(line):
            spaces.append(found[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif (found := TYPE.match(line)) and not before.startswith("template"):
            yield "::".join([*spaces, found[1]])
        before = line


def twice_defined():
    places = {}
    for header in sorted([*SRC.rglob("*.h"), *(ROOT / "tests").rglob("*.h")]):
        for name in types_of(header):
            places.setdefault(name, []).append(header.relative_to(ROOT).as_posix())
    for name, headers in places.items():
        if len(headers) > 1:
            yield f"{name} is defined in {' and '.join(headers)}: want another name for one of them"


class Table:
    def __init__(self, text):
        self.may = {}  # by folder: the folders that it may include
        self.offers, self.takes = {}, {}  # by folder: headers
        for line in text.splitlines():
            line = line.split("#")[0].strip()
            if not line:
                continue
            subject, _, words = line.partition(":")
            folder, _, verb = subject.strip().partition(" ")
            lists = {"": self.may, "offers": self.offers, "takes": self.takes}[verb]
            lists.setdefault(folder, []).extend(words.split())
        for folder, words in self.may.items():
            allowed = {word for word in words if not word.startswith("-")}
            if "all" in allowed:
                allowed = set(self.may)
            self.may[folder] = (allowed | {folder}) - {word[1:] for word in words if word.startswith("-")}
        for header in sum([*self.offers.values(), *self.takes.values()], []):
            if not (SRC / header).is_file():
                sys.exit(f"{TABLE}: {header}: no such header")

    def hides(self, header, here, name):
        """Whether `header` is not offered to src/`name`, which lies in the folder `here`."""
        owner = next((folder for folder in self.offers if header.startswith(folder + "/")), None)
        if owner is None or here == owner or header in self.offers[owner]:
            return False
        return not any(name.startswith(folder + "/") and header in headers for folder, headers in self.takes.items())


def folder_of(path, folders):
    """The most specific of the folders that holds `path` (relative to src/)."""
    parents = [str(parent) for parent in pathlib.PurePosixPath(path).parents]
    return next((parent for parent in parents if parent in folders), None)


def faults_of(source, table):
    name = source.relative_to(SRC).as_posix()
    here = folder_of(name, table.may)
    if here is None:
        yield f"src/{name}: its folder is not in tools/include_table.txt"
        return
    for target in INCLUDE.findall(source.read_text()):
        there = folder_of(target, table.may)
        if there is None or not (SRC / target).is_file():
            yield f'src/{name} includes "{target}": want a path relative to src/ that exists'
        elif there not in table.may[here]:
            yield f'src/{name} includes "{target}": {here} may include {" ".join(sorted(table.may[here]))}'
        elif table.hides(target, here, name):
            yield f'src/{name} includes "{target}": want one of the headers that {there} offers, or a line "takes"'


def main():
    table = Table(TABLE.read_text())
    sources = sorted(path for path in SRC.rglob("*") if path.suffix in (".h", ".cpp", ".inc"))
    faults = [fault for source in sources for fault in faults_of(source, table)] + list(twice_defined())
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"includes: {len(sources)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""tidy.py BUILD JOBS [COMMITS]: runs clang-tidy (checks: .clang-tidy) over the sources of src/ as BUILD compiles them.

With COMMITS, only over those that this many of the last commits, or what is not committed, touched: a changed header
stands for the source of its name and, without one, for the first that includes it. Where git does not know so many
commits, over all. A change of .clang-tidy wants a run without COMMITS.

Nearly all of clang-tidy's time goes into the standard library's headers, so sources with the same flags are checked
together, in batches (tools/batches.py). If names in a batch clash or shadow each other, the sources with errors and those
without are checked again separately, and only runs without errors count.
Results are cached by a digest of a batch's preprocessed text, its flags, the checks and the tool. A result is a file in
the folder `tidy` of the compiler cache, if there is one. The file is empty if the batch was clean; otherwise it names the
sources that must be checked separately because of a clash.
"""

import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

from batches import ROOT, batches_of

TIDY = "clang-tidy-19"
MOST_SOURCES = 20  # a batch: enough to share the headers, few enough to keep every processor busy

FOLDER = re.compile(r" -I\S+| -isystem \S+")
DEVICE = re.compile(r"src/device/\w+/")
INCLUDED = re.compile(r"^In file included from (\S+?):\d+:", re.MULTILINE)


def output_of(*command):
    return subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout


def sources_by_flags(build):
    """(device's folder or none, flags) to the sources compiled with them, in order. Devices do not know each other, nor
    each other's names. Folders of headers are those of all sources: no two headers have one name."""
    found = collections.defaultdict(list)
    folders = dict.fromkeys([])
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if ROOT / "src" not in source.parents:
            continue
        command = re.sub(r" -[co] \S+", "", entry["command"])
        folders.update(dict.fromkeys(FOLDER.findall(command)))
        device = DEVICE.match(source.relative_to(ROOT).as_posix())
        found[device and device[0], tuple(shlex.split(FOLDER.sub("", command))[1:])].append(source)
    shared = tuple(shlex.split("".join(folders)))
    return {(device, flags + shared): sorted(sources) for (device, flags), sources in found.items()}


def touched(sources, commits):
    """Those of the sources that the last commits touched; all where git does not know so many."""
    said = subprocess.run(["git", "diff", "--name-only", f"HEAD~{commits}", "--", "src"],
                          capture_output=True, text=True, cwd=ROOT)
    changed = set(said.stdout.split())
    if said.returncode != 0:
        return sources
    chosen = set()
    for name in changed:
        path = ROOT / name
        if path.suffix == ".h" and path.exists():
            beside = path.with_suffix(".cpp")
            including = f'#include "{path.relative_to(ROOT / "src")}"'
            path = beside if beside in sources else next((s for s in sources if including in s.read_text()), None)
        chosen.add(path)
    return [source for source in sources if source in chosen]


def batches(build, commits):
    """Lists of sources that one compiler run may read, with their flags."""
    found = sources_by_flags(build)
    every = [source for sources in found.values() for source in sources]
    chosen = set(touched(every, commits)) if commits else set(every)
    for (_, flags), sources in found.items():
        sources = [source for source in sources if source in chosen]
        for batch in batches_of(sources, MOST_SOURCES):
            yield flags, batch


def known_folder(build):
    try:
        folder = pathlib.Path(output_of("ccache", "--get-config", "cache_dir").decode().strip()) / "tidy"
    except (OSError, subprocess.CalledProcessError):
        folder = build / "tidy" / "known"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(file, flags, settings):
    text = output_of("clang++-19", *flags, "-E", "-C", str(file))
    rest = " ".join(flags).encode() + settings
    return hashlib.sha256(text.replace(bytes(ROOT), b"") + b"\0" + rest.replace(bytes(ROOT), b"")).hexdigest()


def with_errors(sources, said):
    """Some of these sources, never all: those in which the compiler, not a check, found an error."""
    found = set()
    stack = []
    for line in said.splitlines():
        if above := INCLUDED.match(line):
            stack.append(above.group(1))
            continue
        if "[clang-diagnostic-" in line:
            found.update(stack + [line.split(":")[0]])
        stack = []
    apart = [source for source in sources if str(source) in found]
    if not apart or len(apart) == len(sources):
        apart = sources[::2]
    return [str(source.relative_to(ROOT)) for source in apart]


def run(build, flags, sources, known, settings):
    """What clang-tidy has against these sources: nothing where they are clean."""
    name = sources[0].relative_to(ROOT).as_posix().replace("/", "_")
    file = build / "tidy" / f"{len(sources)}_{name}"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f'#include "{source}"  // NOLINT\n' for source in sources))
    mark = known / digest(file, flags, settings)
    if not mark.exists():
        result = subprocess.run([TIDY, "-quiet", f"--config-file={ROOT}/.clang-tidy", r"--header-filter=src/.*\.(h|cpp)$",
                                 str(file), "--", *flags, "-ferror-limit=0"], capture_output=True, text=True, cwd=ROOT)
        said = result.stdout + result.stderr
        clashes = len(sources) > 1 and "[clang-diagnostic-" in said
        if result.returncode != 0 and not clashes:
            return said
        mark.write_text("\n".join(with_errors(sources, said)) if clashes else "")
    apart = mark.read_text().split()
    if not apart:
        return ""
    parts = [[s for s in sources if (str(s.relative_to(ROOT)) in apart) == chosen] for chosen in (False, True)]
    return "".join(run(build, flags, part, known, settings) for part in parts)


def main():
    build, jobs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    commits = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    settings = (ROOT / ".clang-tidy").read_bytes() + output_of(TIDY, "--version")
    known = known_folder(build)
    todo = sorted(batches(build, commits), key=lambda batch: -len(batch[1]))
    count = sum(len(sources) for _, sources in todo)
    print(f"tidy: {count} sources in {len(todo)} batches", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        said = "".join(pool.map(lambda batch: run(build, *batch, known, settings), todo))
    sys.stdout.write(said)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""second_compiler.py BUILD JOBS COMMITS: lets g++ 12 read the sources of src/ that the last commits touched, with the flags
of BUILD (tools/tidy.py says which those are). It makes no code: `make check-levels-long` compiles all of the program, and runs
what computes numbers.
"""

import concurrent.futures
import pathlib
import subprocess
import sys

from tidy import ROOT, batches

# What the whole build by g++ leaves out, too, and why: CMakeLists.txt.
COMPILER = ["g++-12", "-fsyntax-only", "-x", "c++", "-Wno-maybe-uninitialized", "-Wno-uninitialized", "-Wno-restrict"]


def read(flags, sources):
    """What g++ says against these sources: nothing where they are clean."""
    text = "".join(f'#include "{source}"\n' for source in sources)
    result = subprocess.run([*COMPILER, *flags, "-"], input=text, capture_output=True, text=True, cwd=ROOT)
    if result.returncode == 0:
        return ""
    # Perhaps names of a batch clash: only what is wrong alone counts.
    return result.stderr if len(sources) == 1 else "".join(read(flags, [source]) for source in sources)


def main():
    todo = list(batches(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[3])))
    count = sum(len(sources) for _, sources in todo)
    print(f"g++: reads {count} sources in {len(todo)} batches", flush=True)
    with concurrent.futures.ThreadPoolExecutor(int(sys.argv[2])) as pool:
        said = "".join(pool.map(lambda batch: read(*batch), todo))
    sys.stdout.write(said)
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times how long a model takes until it is ready: `sluice bench` beside an llama-bench program, in turns.

  bench/loading.py SLUICE LLAMA_BENCH FILE.gguf [--threads 2] [--rounds 3] [--cold 0] [-- OPTIONS]

Ours: `ready_seconds`, with weights packed before the first token. The peer's: what its process takes for one token, its
start included, less that token; OPTIONS are given to it, such as `-rtr 1` for weights that ik_llama.cpp repacks. With
`--cold 1` the system is asked to drop the file from its caches before each turn. Of a model with experts ours is not
cold, because `sluice bench` computes 64 tokens of it first. Quote ratios, not single times.
"""

import argparse
import json
import os
import statistics
import time

from turns import output, read_options


def drop(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def ours(arguments: argparse.Namespace) -> float:
    command = [arguments.sluice, "bench", arguments.file, "--json", "--rounds", "1", "--repack", "first"]
    command += ["--threads", str(arguments.threads), "--prompt", "0", "--answer", "1"]
    return json.loads(output(command))["ready_seconds"]


def peer(arguments: argparse.Namespace) -> float:
    command = [arguments.llama_bench, "-m", arguments.file, "-o", "json", "-r", "1", "-w", "0"]
    command += ["-t", str(arguments.threads), "-p", "0", "-n", "1", *arguments.options]
    begin = time.monotonic()
    tests = json.loads(output(command))
    return time.monotonic() - begin - 1 / tests[0]["avg_ts"]


def main() -> None:
    numbers = {"threads": 2, "rounds": 3, "cold": 0}
    arguments = read_options(__doc__, ["sluice", "llama_bench", "file"], numbers)
    ratios = []
    for number in range(arguments.rounds):
        times = []
        for measured in ours, peer:
            if arguments.cold:
                drop(arguments.file)
            times.append(measured(arguments))
        ratios.append(times[1] / times[0])
        print(f"round {number + 1}  ours {times[0]:7.2f} s  peer {times[1]:7.2f} s", flush=True)
    print(f"peer / ours {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


main()

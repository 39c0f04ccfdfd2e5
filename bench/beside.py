#!/usr/bin/env python3
"""Times `sluice bench` beside an llama-bench program, each in a process of its own, in turns.

  bench/beside.py SLUICE LLAMA_BENCH FILE.gguf [--threads 2] [--prompt 256] [--answer 24] [--rounds 3] [-- OPTIONS]

LLAMA_BENCH is that of llama.cpp or of ik_llama.cpp (tests/peer/build_ik.sh); OPTIONS are given to it, such as
`-rtr 1 -fa 1` for weights that ik_llama.cpp repacks. Prints tokens a second of each round and the median of the rounds'
ratios, ours divided by the peer's, with the least and the largest. Quote ratios, not single times.
"""

import argparse
import json
import statistics

from turns import output, read_options

KINDS = {"prompt": "prompt", "decode": "answer"}


def ours(arguments: argparse.Namespace) -> dict[str, float]:
    command = [arguments.sluice, "bench", arguments.file, "--json", "--rounds", "1"]
    command += ["--threads", str(arguments.threads)]
    command += ["--prompt", str(arguments.prompt), "--answer", str(arguments.answer)]
    tests = json.loads(output(command))["tests"]
    return {KINDS[test["kind"]]: test["tokens_per_second"]["median"] for test in tests}


def peer(arguments: argparse.Namespace) -> dict[str, float]:
    command = [arguments.llama_bench, "-m", arguments.file, "-o", "json", "-r", "1", "-t", str(arguments.threads)]
    command += ["-p", str(arguments.prompt), "-n", str(arguments.answer), *arguments.options]
    tests = json.loads(output(command))
    return {"answer" if test["n_gen"] else "prompt": test["avg_ts"] for test in tests}


def main() -> None:
    numbers = {"threads": 2, "prompt": 256, "answer": 24, "rounds": 3}
    arguments = read_options(__doc__, ["sluice", "llama_bench", "file"], numbers)
    rounds = []
    for number in range(arguments.rounds):
        rounds.append((ours(arguments), peer(arguments)))
        for kind in rounds[-1][0]:
            print(f"round {number + 1}  {kind:6}  ours {rounds[-1][0][kind]:9.2f}  peer {rounds[-1][1][kind]:9.2f}")
    for kind in rounds[0][0]:
        ratios = [mine[kind] / theirs[kind] for mine, theirs in rounds]
        print(f"{kind}: ours / peer {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


main()

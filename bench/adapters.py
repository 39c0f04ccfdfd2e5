#!/usr/bin/env python3
"""Times `sluice bench` with made-up adapters beside the same without, each in a process of its own, in turns.

  bench/adapters.py SLUICE [--rank 16] [--adapters 1] [--rounds 9] -- OPTIONS

OPTIONS are given to `sluice bench`, such as `--shape gemma4-e2b --prompt 512 --answer 48 --batch 1`. Prints tokens a
second of each round, and the median of the ratios of neighbouring runs (with adapters divided by without) with the
least and the largest. A run is compared with the one before it and with the one behind it, because a shared machine
may change its speed from one minute to the next.
"""

import json
import statistics

from turns import output, read_options


def speeds(sluice: str, options: list[str]) -> dict[str, float]:
    tests = json.loads(output([sluice, "bench", "--json", "--rounds", "1", *options]))["tests"]
    return {f"{test['kind']} of {test['batch']}": test["tokens_per_second"]["median"] for test in tests}


def main() -> None:
    arguments = read_options(__doc__, ["sluice"], {"rank": 16, "adapters": 1, "rounds": 9})
    options = arguments.options
    adapted = ["--adapter-rank", str(arguments.rank), "--adapters", str(arguments.adapters)]
    ratios: dict[str, list[float]] = {}
    without: dict[str, float] = {}
    adapters: dict[str, float] = {}
    for number in range(arguments.rounds):
        without = speeds(arguments.sluice, options)
        for test, speed in without.items():
            if adapters:
                ratios[test].append(adapters[test] / speed)
        adapters = speeds(arguments.sluice, options + adapted)
        for test, speed in adapters.items():
            ratios.setdefault(test, []).append(speed / without[test])
            print(f"round {number + 1}  {test:12}  without {without[test]:9.2f}  with {speed:9.2f}", flush=True)
    for test, values in ratios.items():
        print(f"{test}: {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()

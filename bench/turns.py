"""What the benchmarks have in common that run two programs in turns, each time in a process of its own."""

import argparse
import subprocess
import sys


def read_options(doc: str, names: list[str], numbers: dict[str, int]) -> argparse.Namespace:
    """The named arguments, `--NUMBER N` for each number, and in `options` what stands behind `--`."""
    own, options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, options = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names:
        parser.add_argument(name)
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args(own)
    arguments.options = options
    return arguments


def output(command: list[str]) -> str:
    """What the command prints. Ends this program with one sentence if the command fails."""
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{command[0]} ended with status {ran.returncode}: {ran.stderr.strip().splitlines()[-1:]}")
    return ran.stdout

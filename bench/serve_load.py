#!/usr/bin/env python3
"""Times `sluice serve` beside llama.cpp's server under the same load, in turns.

  bench/serve_load.py SLUICE FILE.gguf [--peer LLAMA_SERVER] [--bare | --idle N] [--clients 1,4,16,64] [--requests 24] [--threads 2]
                      [--parallel 16] [--rounds 3] [--cores LIST] [--options "..."] [--peer-options "..."]

The clients share `--requests`, at least one each. A client asks one after another, with random pauses before (exponential,
0.2 s on average, so that requests arrive as a Poisson process does), for streamed completions of random ids: 16 to 256 of
the prompt and 16 to 64 of the answer, both log-uniform. The lengths, ids and pauses follow from a seed: both servers get
the same load. A server runs at most `--parallel` answers at once, and others wait in its queue. `--cores` pins the servers
to processors, as taskset takes them. For each round and number of clients: answered tokens a second, and the time to the
first token, its median and 99th percentile; then the medians of the rounds' ratios, ours divided by the peer's, with the
least and the largest.

--bare compares the server with `sluice bench` instead: as many equal requests at once as there are clients, of 16 ids and
64 of the answer. The ratios are those of tokens a second while answering; of the time to the first token the difference is
printed, in milliseconds.

--idle N opens N streams that wait in the queue of our server, two of which are answered at a time, and prints what 100
requests for /health take meanwhile, and the memory of the server's process.

LLAMA_SERVER is built by tests/peer/mtmd.
"""

import argparse
import asyncio
import json
import math
import random
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

PAUSE_SECONDS = 0.2
PROMPT = (16, 256)
EVEN = (16, 64)  # tokens of prompt and answer beside the bare engine
ANSWER = (16, 64)
VOCABULARY = (300, 4000)  # ids of the prompts; all models have them


@dataclass
class Load:
    clients: int
    requests: int
    seed: int
    even: bool = False  # all alike, without pauses

    def of(self, client: int) -> list[tuple[float, list[int], int]]:
        """The pause before each of the client's requests, its prompt and the length of its answer."""
        draw = random.Random(f"{self.seed}/{client}")

        def length(bounds: tuple[int, int]) -> int:
            return round(math.exp(draw.uniform(math.log(bounds[0]), math.log(bounds[1]))))

        if self.even:
            return [(0, [draw.randrange(*VOCABULARY) for _ in range(EVEN[0])], EVEN[1]) for _ in range(self.requests)]
        return [(draw.expovariate(1 / PAUSE_SECONDS), [draw.randrange(*VOCABULARY) for _ in range(length(PROMPT))],
                 length(ANSWER)) for _ in range(self.requests)]


@dataclass
class Seen:
    begun: float = math.inf
    ended: float = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    first: list[float] = field(default_factory=list)  # seconds to the first token of each request
    rates: list[float] = field(default_factory=list)  # tokens a second from the first to the last of each answer

    def row(self) -> dict[str, float]:
        first = sorted(self.first)
        return {"tokens": self.answer_tokens / (self.ended - self.begun), "first_median": statistics.median(first),
                "first_99": first[math.ceil(0.99 * len(first)) - 1]}


async def ask(port: int, prompt: list[int], answer: int, seen: Seen) -> None:
    body = json.dumps({"prompt": prompt, "max_tokens": answer, "temperature": 0, "stream": True,
                       "stream_options": {"include_usage": True}}).encode()
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    status = (await reader.readline()).split()
    if len(status) < 2 or status[1] != b"200":
        sys.exit(f"the server answered {status}: {(await reader.read())[-300:]!r}")
    first = None
    usage = None
    async for line in reader:
        if not line.startswith(b"data: {"):
            continue
        if first is None:
            first = time.perf_counter()
        if b'"usage"' in line:
            usage = json.loads(line[6:]).get("usage") or usage
    writer.close()
    ended = time.perf_counter()
    if first is None or usage is None:
        sys.exit("the server ended an answer without a token or its usage")
    seen.begun = min(seen.begun, begun)
    seen.ended = max(seen.ended, ended)
    seen.first.append(first - begun)
    seen.prompt_tokens += usage["prompt_tokens"]
    seen.answer_tokens += usage["completion_tokens"]
    seen.rates.append((usage["completion_tokens"] - 1) / (ended - first))


async def play(port: int, load: Load) -> Seen:
    seen = Seen()

    async def client(number: int) -> None:
        for pause, prompt, answer in load.of(number):
            await asyncio.sleep(pause)
            await ask(port, prompt, answer, seen)

    await asyncio.gather(*(client(number) for number in range(load.clients)))
    return seen


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A server's process, ready to be asked."""

    def __init__(self, command: list[str], port: int, cores: str) -> None:
        self.port = port
        pinned = ["taskset", "-c", cores] if cores else []
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*pinned, *command], stdout=self.said, stderr=self.said)

    def __enter__(self) -> "Server":
        while not self.answers():
            if self.process.poll() is not None:
                self.said.seek(0)
                sys.exit(f"the server ended: {self.said.read()[-1000:].decode(errors='replace')}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as one:
                one.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n".encode())
                return b" 200 " in one.recv(64)
        except OSError:
            return False


def command_of(who: str, arguments: argparse.Namespace, port: int) -> list[str]:
    threads, parallel = str(arguments.threads), str(arguments.parallel)
    context = PROMPT[1] + ANSWER[1] + 16
    if who == "ours":
        return [arguments.sluice, "serve", arguments.file, "--port", str(port), "--threads", threads, "--parallel", parallel,
                "--queue", "4096", "--context", str(context), "--page", "none", *shlex.split(arguments.options)]
    return [arguments.peer, "-m", arguments.file, "--port", str(port), "-t", threads, "-tb", threads, "-np", parallel,
            "-c", str(context * arguments.parallel), "--no-warmup", "-lv", "1", *shlex.split(arguments.peer_options)]


def started(who: str, arguments: argparse.Namespace) -> Server:
    port = free_port()
    return Server(command_of(who, arguments, port), port, arguments.cores)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def beside_peer(arguments: argparse.Namespace, counts: list[int]) -> None:
    servers = ["ours", "peer"] if arguments.peer else ["ours"]
    rows: dict[int, dict[str, list[dict[str, float]]]] = {count: {who: [] for who in servers} for count in counts}
    for number in range(arguments.rounds):
        for who in servers:
            with started(who, arguments) as server:
                asyncio.run(play(server.port, Load(1, 1, -1)))  # reads the file and fills caches
                for count in counts:
                    load = Load(count, max(1, arguments.requests // count), number)
                    row = asyncio.run(play(server.port, load)).row()
                    rows[count][who].append(row)
                    print(f"round {number + 1}  {who}  {count:3} clients  {row['tokens']:8.1f} tokens/s  first token "
                          f"{row['first_median']:7.3f} s, 99th {row['first_99']:7.3f} s", flush=True)
    for count in counts if arguments.peer else []:
        for name in rows[count]["ours"][0]:
            ratios = [mine[name] / theirs[name] for mine, theirs in zip(rows[count]["ours"], rows[count]["peer"])]
            print(f"{count:3} clients  {name:12}  ours / peer {spread(ratios)}")


def bench(arguments: argparse.Namespace, count: int) -> tuple[float, float]:
    """Tokens a second of as many answers, and the seconds of a prompt, without the server."""
    command = [arguments.sluice, "bench", arguments.file, "--json", "--rounds", "1", "--threads", str(arguments.threads),
               "--batch", str(count), "--prompt", str(EVEN[0]), "--answer", str(EVEN[1]), *shlex.split(arguments.options)]
    pinned = ["taskset", "-c", arguments.cores] if arguments.cores else []
    ran = subprocess.run([*pinned, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    speeds = {test["kind"]: test["tokens_per_second"]["median"] for test in json.loads(ran.stdout)["tests"]}
    return speeds["decode"], EVEN[0] / speeds["prompt"]


def beside_engine(arguments: argparse.Namespace, counts: list[int]) -> None:
    rates: dict[int, list[float]] = {count: [] for count in counts}
    later: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(arguments.rounds):
        for count in counts:
            bare_rate, bare_first = bench(arguments, count)
            with started("ours", arguments) as server:
                asyncio.run(play(server.port, Load(1, 1, -1, even=True)))
                seen = asyncio.run(play(server.port, Load(count, max(1, arguments.requests // count), number, even=True)))
            rates[count].append(statistics.mean(seen.rates) * count / bare_rate)
            later[count].append(1e3 * (statistics.median(seen.first) - bare_first))
            print(f"round {number + 1}  {count:3} clients  {statistics.mean(seen.rates) * count:8.1f} tokens/s, bare "
                  f"{bare_rate:8.1f}", flush=True)
    for count in counts:
        print(f"{count:3} clients  answers     server / bare engine {spread(rates[count])}")
        if count == 1:
            print(f"{count:3} clients  first token server - bare engine {spread(later[count])} ms")


async def health_among(port: int, streams: int) -> list[float]:
    """Milliseconds of 100 requests while as many streams are open, sorted."""
    head = f"HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    body = json.dumps({"prompt": "A", "max_tokens": 3000, "stream": True, "guided_regex": "[a-z ]{6000}"})
    opened = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /v1/completions {head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        opened.append((reader, writer))
    for reader, _ in opened:
        if b" 200 " not in await reader.readline():
            sys.exit("the server did not begin a stream")
    times = []
    for _ in range(100):
        begun = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /health {head}Connection: close\r\n\r\n".encode())
        await reader.read()
        times.append(1e3 * (time.perf_counter() - begun))
        await asyncio.sleep(0.05)
    return sorted(times)


def beside_idle_streams(arguments: argparse.Namespace) -> None:
    def megabytes(process: subprocess.Popen[bytes]) -> float:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1e3

    arguments.parallel = 2
    with started("ours", arguments) as server:
        before = megabytes(server.process)
        times = asyncio.run(health_among(server.port, arguments.idle))
        print(f"{arguments.idle} streams: /health in {times[50]:.1f} ms, 99th {times[98]:.1f}, most {times[-1]:.1f}; "
              f"{before:.0f} MB before, {megabytes(server.process):.0f} MB at the end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sluice")
    parser.add_argument("file")
    parser.add_argument("--peer")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--clients", default="1,4,16,64")
    for name, value in {"requests": 24, "threads": 2, "parallel": 16, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("cores", "options", "peer-options"):
        parser.add_argument(f"--{name}", default="")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.clients.split(",")]
    if arguments.idle:
        return beside_idle_streams(arguments)
    (beside_engine if arguments.bare else beside_peer)(arguments, counts)


main()

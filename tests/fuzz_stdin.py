"""Random bytes on the standard input of every command, until the time is over:

    python tests/fuzz_stdin.py --minutes 10 [--seed 0] [--out FILE]

Each run must end in time, with an exit code that the help names, without a traceback, with messages of one line that begin
with "tx: ", and, where it succeeds, with UTF-8 on the standard output; `tx translate` of plain lines gives as many lines as
it got. What does not is printed and added to FILE, whose lines `tests/cli/test_fuzz_seeds.py` runs again.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

FAKE = [sys.executable, str(Path(__file__).parent / "cli" / "fake_tx.py")]  # where the model has no part in it
LIMIT = 60  # seconds of the processor: a run that takes longer hangs
PATIENCE = 10 * LIMIT  # of the clock: a machine may be busy
STATUSES = {0, 1, 2, 3}
SEEDS = Path(__file__).parent / "cli" / "fuzz_seeds.jsonl"

WORDS = [
    "I",
    "love",
    "NLP",
    "the",
    "cat's",
    "U.S.",
    "我爱你",
    "。",
    "？",
    "你好，世界",
    "é",
    "😆",
    "👨‍👩‍👧",
    "2,200,112",
    "{name}",
    "%s",
]
WORDS += [
    "https://x.org/a?b=c",
    "a@b.org",
    "<b>",
    "</p>",
    "&amp;",
    "-->",
    "**",
    "`x`",
    "[1]: /u",
    "#",
    "|",
    "\\",
    '"',
    "'",
    ",",
]
WORDS += [
    "\0",
    "\x1b[31m",
    "\r",
    "\t",
    "\u2028",
    "\ufeff",
    "\u202e",
    "\ufffd",
    "\u3000",
    "e\u0301",
    "---",
    "```",
    "-5",
    "--",
    "1954?",
]
FRAMES = {
    "html": "<html><body><p title='{}'>{}</p><script>{}</script></body></html>",
    "markdown": "---\ntitle: {}\n---\n# {}\n\n- {}\n\n| a | b |\n|---|---|\n| {} | {} |\n",
    "srt": "1\n00:00:00,000 --> 00:00:12,840\n{}\n\n2\n00:00:13,000 --> 00:00:14,000\n{}\n",
    "vtt": "WEBVTT\n\n00:00.000 --> 00:12.840\n{}\n",
    "po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr ""\n',
    "json": '{{"text": "{}", "other": [{{"text": "{}"}}]}}',
    "jsonl": '{{"text": "{}"}}\n{{"text": "{}"}}\n',
    "csv": "id,text\n1,{}\n2,{}\n",
    "tsv": "id\ttext\n1\t{}\n",
}
BY_FIELD = {"json", "jsonl", "csv", "tsv"}


def text(chance: random.Random) -> str:
    """Words, marks and line ends."""
    count = chance.randrange(1, chance.choice([4, 12, 12, 40]))
    parts = [chance.choice(WORDS) + chance.choice(["", " ", " ", "\n", ". "]) for _ in range(count)]
    return "".join(parts)


def data(chance: random.Random, name: str | None) -> bytes:
    """What comes on the standard input: noise, text, text with some bytes changed, or a document of that format."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.choice([0, 1, 3, 40, 200]))
    if kind == 1:
        characters = [
            chr(chance.choice([chance.randrange(0xD800), chance.randrange(0xE000, 0x110000)])) for _ in range(80)
        ]
        return "".join(characters).encode()
    words = text(chance)
    if kind == 2:
        words = chance.choice(WORDS) * chance.choice([2, 20, 20, 200])
    if name in FRAMES and chance.random() < 0.8:
        frame = FRAMES[name]
        words = frame.format(*[text(chance) for _ in range(frame.count("{}"))])
    raw = words.encode(chance.choice(["utf-8"] * 8 + ["utf-16", "gb18030"]), "replace")
    if kind == 3 and raw:
        changed = bytearray(raw)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        raw = bytes(changed)
    return raw[: chance.randrange(len(raw) + 1)] if kind == 4 else raw


def arguments(chance: random.Random) -> tuple[list[str], str | None]:
    """A command that reads the standard input, with some options; and the format that it was told, if any."""
    command = chance.choice(["translate"] * 4 + ["summarize", "qa", "show-attention"])
    found, name = [command, "--engine", "numpy"], None
    if command == "translate":
        if chance.random() < 0.5:
            name = chance.choice(["text", *FRAMES])
            found += ["--format", name]
            found += ["--field", chance.choice(["text", "2", ""])] if name in BY_FIELD and chance.random() < 0.9 else []
        options = [["--json"], ["--score"], ["--paragraph"], ["--strict"], ["--to", "zh"], ["--from", "zh"], ["-q"]]
    elif command == "summarize":
        options = [["--words", "10"], ["--sentences", "1"], ["--rewrite"], ["--json"], ["--strict"]]
    elif command == "qa":
        found += [chance.choice(["Who came?", "我爱谁？", "", "?", "What does --x do?"])]
        options = [["--top-k", "3"], ["--json"], ["--threshold", "-inf"], ["--strict"]]
    else:
        options = [["--json"], ["--list"], ["--kind", "encoder"], ["--format", "moses"], ["--ascii"], ["--width", "30"]]
    found += ["--beam", "1"] if command in ("translate", "show-attention") and chance.random() < 0.8 else []
    options += (
        [["--encoding", chance.choice(["latin-1", "gb18030", "utf-16", "nope"])]] if chance.random() < 0.2 else []
    )
    for option in chance.sample(options, chance.randrange(3)):
        found += option
    return found, name


def fault(
    asked: list[str], raw: bytes, program: list[str] | None = None, limit: int = LIMIT, patience: float = PATIENCE
) -> str | None:
    """What is wrong with a run, in a line; None where all is as it should be."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TX_")}
    command = [*(program or [sys.executable, "-m", "tx.cli"]), *asked]
    kept |= {"TX_CONFIG": ""}

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))

    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=patience, env=kept, preexec_fn=bounded)
    except subprocess.TimeoutExpired:
        return f"took more than {patience} s"
    if done.returncode == -signal.SIGXCPU:
        return f"took more than {limit} s of the processor"
    messages = done.stderr.decode("utf-8", "replace").splitlines()
    errors = [line for line in messages if line.startswith("tx: error: ")]
    if done.returncode not in STATUSES:
        return f"exit status {done.returncode}: {messages[-1:]}"
    if any("Traceback" in line or line.startswith("tx: error: unexpected") for line in messages):
        return f"a bug: {messages[-1]}"
    if any(not line.startswith("tx: ") for line in messages) and "usage: tx " not in messages[0]:
        return f"a strange message: {[line for line in messages if not line.startswith('tx: ')][0]}"
    if len(errors) != (done.returncode in (1, 2)):
        return f"exit status {done.returncode} with {len(errors)} errors"
    if done.returncode in (0, 3):
        try:
            done.stdout.decode()
        except UnicodeDecodeError as error:
            return f"the output is not UTF-8: {error}"
        plain = asked[0] == "translate" and not {"--format", "--paragraph", "--encoding"} & set(asked)
        if plain and "--json" not in asked and done.stdout.count(b"\n") != raw.count(b"\n"):
            return "another number of lines came out than went in"
    return None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=SEEDS)
    asked = options.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    runs: collections.Counter[str] = collections.Counter()
    faults = 0
    for number in range(10**9):
        if time.monotonic() >= end:
            break
        chance = random.Random(f"{asked.seed} {number}")
        command, name = arguments(chance)
        raw = data(chance, name)
        runs[command[0]] += 1
        found = fault(command, raw, FAKE if command[0] == "translate" and chance.random() < 0.6 else None)
        if found:
            faults += 1
            print(f"{number}: {found}: tx {' '.join(command)} < {raw[:60]!r}", flush=True)
            with asked.out.open("a", encoding="utf-8") as stream:
                record = {"arguments": command, "data": base64.b64encode(raw).decode(), "fault": found}
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    print(f"{sum(runs.values())} runs ({', '.join(f'{n} {name}' for name, n in runs.items())}), {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

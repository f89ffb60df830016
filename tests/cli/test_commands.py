"""`tx` in this process, with a translator that writes in capitals."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tx.cli import app, main
from tx.cli.commands import size


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture(params=[main, app], ids=["main", "app"])  # with and without the short way past typer
def run(
    request: pytest.FixtureRequest,
    fake_pipeline: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Run:
    def run_tx(*arguments: str, stdin: bytes = b"", terminal: bool = False) -> Result:
        stream = io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(sys, "stdin", stream)
        capsysbinary.readouterr()
        status = request.param.main(arguments)
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


def test_arguments(run: Run) -> None:
    assert run("translate", "i love nlp") == (0, "I LOVE NLP\n", "")
    assert run("translate", "a", "b\nc", "", stdin=b"not read\n") == (0, "A\nB\nC\n\n", "")
    assert run("translate", "--", "-5 degrees") == (0, "-5 DEGREES\n", "")


def test_standard_input(run: Run) -> None:
    assert run("translate", stdin=b"a\nb\n") == (0, "A\nB\n", "")
    assert run("translate", "-", stdin=b"a") == (0, "A", "")
    assert run("translate", "x", "-", "y", stdin=b"a\n") == (0, "X\nA\nY\n", "")
    assert run("translate", stdin=b"") == (0, "", "")
    assert run("translate", stdin=b"\n") == (0, "\n", "")


def test_layout_is_kept(run: Run, fake_pipeline: ModuleType) -> None:
    text = b"\xef\xbb\xbf  a \r\n\n \t \n\xe3\x80\x80b\nend"
    fake_pipeline.calls.clear()
    assert run("translate", stdin=text) == (0, "  A \r\n\n \t \n\u3000B\nEND", "")
    assert list(fake_pipeline.calls) == [
        ["a", "b", "end"]
    ]  # blank lines are not put to the model, nor are spaces at ends


def test_markup_and_escapes_are_text(run: Run) -> None:
    text = "see [BOLD] and [/ITEMS] and LIST[STR] :SMILE: " + "X" * 300
    assert run("translate", text).out == text.upper().replace("SEE", "SEE") + "\n"


def test_one_line_out_for_one_line_in(run: Run) -> None:
    assert run("translate", "two lines").out == "one two\n"


def test_files(run: Run, tmp_path: Path) -> None:
    first, second, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    first.write_bytes(b"a\nno end")
    second.write_bytes(b"b\n")
    arguments = ("translate", "-i", str(first), "-i", str(second))
    assert run(*arguments) == (0, "A\nNO END\nB\n", "")
    assert run(*arguments, "-o", str(out)) == (0, "", "")
    assert out.read_bytes() == b"A\nNO END\nB\n"
    assert run("translate", "-i", str(first), "-o", str(first)).status == 0
    assert first.read_bytes() == b"A\nNO END"
    assert run("translate", "-i", "-", stdin=b"c\n").out == "C\n"
    assert run("translate", "-i", str(first), "text").status == 2


def test_batches_look_ahead_but_not_far(run: Run, fake_pipeline: ModuleType) -> None:
    fake_pipeline.calls.clear()
    assert run("translate", stdin=b"x\n" * 1000).out == "X\n" * 1000
    assert [len(call) for call in fake_pipeline.calls] == [8, 16, 32, 64, 128, 256, 256, 240]
    assert list(fake_pipeline.more_follows)[-8:] == [False] * 5 + [True, True, False]


def test_json(run: Run) -> None:
    status, out, _ = run(
        "translate", "--json", "--from", "zh", "--to", "en", stdin=" 你a\n \ninfinite\nlooped".encode()
    )
    assert status == 0
    assert "你A" in out  # not escaped
    assert [json.loads(line) for line in out.splitlines()] == [
        {"source": " 你a", "translation": " 你A", "from": "zh", "to": "en", "score": -0.1235, "flags": []},
        {"source": " ", "translation": " ", "from": "zh", "to": "en", "score": 0.0, "flags": ["copied"]},
        {"source": "infinite", "translation": "INFINITE", "from": "zh", "to": "en", "score": None, "flags": []},
        {"source": "looped", "translation": "LOOPED", "from": "zh", "to": "en", "score": -0.1235, "flags": ["looped"]},
    ]


def test_flags_are_warnings(run: Run) -> None:
    status, out, err = run("translate", stdin=b"fine\ncut\nsplit and looped\n")
    assert (status, out) == (0, "FINE\nCUT\nSPLIT AND LOOPED\n")
    assert [line.rpartition(": ")[0] for line in err.splitlines()] == [
        "tx: warning: stdin line 2",
        "tx: warning: stdin line 3",
        "tx: warning: stdin line 3",
    ]
    assert run("translate", "-q", "cut") == (0, "CUT\n", "")


def test_strict(run: Run) -> None:
    assert run("translate", "--strict", "-q", "cut") == (3, "CUT\n", "")
    assert run("translate", "--strict", "-q", stdin=b"looped\nfine\n").status == 3
    assert run("translate", "--strict", "-q", "split").status == 0  # all of it was translated
    assert run("translate", "--strict", "-q", "fine").status == 0


def test_settings_reach_the_translator(run: Run, fake_pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TX_THREADS", "3")
    run("translate", "--model", "m", "a")
    assert fake_pipeline.made[-1] == {"model": "m", "device": "cpu", "threads": 3, "engine": "auto"}
    run("translate", "--threads", "2", "--device", "cuda", "a")
    assert fake_pipeline.made[-1] == {"model": None, "device": "cuda", "threads": 2, "engine": "auto"}
    run("translate", "--engine", "torch", "a")
    assert fake_pipeline.made[-1]["engine"] == "torch"
    monkeypatch.setenv("TX_ENGINE", "numpy")
    run("translate", "a")
    assert fake_pipeline.made[-1]["engine"] == "numpy"
    run("translate", "--engine", "auto", "a")
    assert fake_pipeline.made[-1]["engine"] == "auto"
    monkeypatch.setenv("TX_ENGINE", "")
    assert run("translate", "a").status == 0
    assert fake_pipeline.made[-1]["engine"] == "auto"
    monkeypatch.setenv("TX_ENGINE", "abacus")
    assert run("translate", "a").err == "tx: error: TX_ENGINE must be one of auto, numpy, torch, not 'abacus'\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "xx", "hi"),
        ("--beam", "0", "hi"),
        ("--beam", "x", "hi"),
        ("--beam", "٣", "hi"),
        ("--batch-size", "-1", "hi"),
        ("--threads", "99999999999999999999999", "hi"),
        ("--device", "toaster", "hi"),
        ("--engine", "abacus", "hi"),
        ("--engine", "", "hi"),
        ("--engine", "numpy", "--device", "cuda", "hi"),
        ("--engine", "numpy", "--device", "auto", "hi"),
        ("--encoding", "nope", "hi"),
        ("--nope",),
        ("--beam",),
        ("-5 degrees",),
        ("-o clock",),
        ("-only you",),
        ("-qonly you",),
        ("-i", "", "-o", "x"),
        ("--from", "", "hi"),
        ("--to", "", "hi"),
    ],
)
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run("translate", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("tx: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500M", 500 << 20), ("2g", 2 << 30), ("1.5KiB", 1536), ("1kb", 1024), ("7", 7), ("7B", 7), ("1TiB", 1 << 40)],
)
def test_sizes(text: str, expected: int) -> None:
    assert size("--max-memory", text) == expected


@pytest.mark.parametrize(
    "text", ["0", "0.0G", "0.4", "0.0001K", "1IB", "1I", "IB", "B", "", ".", "KK", "1KK", "1BB", "-1G", "1_0", "٣G"]
)
def test_what_is_no_size(run: Run, text: str) -> None:
    assert run("translate", "--max-memory", text, "hi") == (
        2,
        "",
        f"tx: error: --max-memory needs a size such as 500M or 2G, not {text!r}\n",
    )


@pytest.mark.parametrize("text", ["-5 degrees", "--- so it goes", "-i think so", "-5", "-hello", "-only you"])
def test_a_text_like_an_option_is_told_what_to_do(run: Run, text: str) -> None:
    error = run("translate", text).err
    assert 'a text that begins with "-" needs "--" before it: tx translate -- ' in error
    assert "see tx translate --help" in error
    assert 'a text that begins with "-" needs "--" before it: tx qa -- ' in run("qa", "-5 or more?").err


@pytest.mark.parametrize("option", ["--nope", "-x", "--nope=3"])
def test_a_mistyped_option_is_not_taken_for_a_text(run: Run, option: str) -> None:
    error = run("translate", option, "a text").err
    assert "a text that begins" not in error
    assert "see tx translate --help" in error
    assert "see tx evaluate translate --help" in run("evaluate", "translate", option).err


def test_a_value_attached_to_a_short_option_is_no_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("-only you", "-qonly", "-o=x"):
        assert "-o needs a space" in run("translate", text, "hi").err
    assert list(tmp_path.iterdir()) == []
    assert run("translate", "-qo", "out", "hi").status == 0
    assert run("translate", "-o", "-odd", "--", "-only").status == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out": "HI\n", "-odd": "-ONLY\n"}


@pytest.mark.parametrize("option", ["--input", "--output", "--from", "--to", "--model"])
def test_an_empty_value_names_its_option(run: Run, option: str) -> None:
    status, out, err = run("translate", option, "")
    assert (status, out, err) == (2, "", f"tx: error: {option} is empty: give it a value or leave it out\n")


@pytest.mark.parametrize(("text", "column"), [(b"caf\xe9\n", 4), (b"\xff", 1)])
def test_bad_bytes_stop_after_the_lines_before_them(run: Run, text: bytes, column: int) -> None:
    status, out, err = run("translate", stdin=b"good\n" + text)
    assert (status, out) == (1, "GOOD\n")
    assert err == f"tx: error: stdin line 2, byte {column} is not UTF-8 (try --encoding latin-1)\n"
    assert run("translate", "--encoding", "latin-1", stdin=b"caf\xe9\n").out == "CAFÉ\n"


def test_errors_are_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("translate", "--model", "/nope", "hi") == (1, "", "tx: error: no model at /nope look [elsewhere]\n")
    status, out, err = run("translate", "boom")
    assert (status, out) == (1, "")
    assert err == "tx: error: unexpected ValueError: a bug of two lines (run again with --debug for a traceback)\n"
    monkeypatch.setenv("TX_DEBUG", "1")
    assert "Traceback" in run("translate", "boom").err


def test_debug_lasts_one_run(run: Run) -> None:
    assert "Traceback" in run("translate", "--debug", "boom").err
    assert "Traceback" in run("--debug", "translate", "boom").err
    assert "Traceback" not in run("translate", "boom").err


def test_a_failed_run_leaves_the_output_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before")
    assert run("translate", "-o", str(out), "boom").status == 1
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "before")]


def test_nothing_given_on_a_terminal(run: Run) -> None:
    status, out, err = run("translate", terminal=True)
    assert (status, out) == (2, "")
    assert err.count("  tx translate ") + err.count("| tx translate ") == 2
    assert "Ctrl-D" in run("translate", "-", terminal=True, stdin=b"a\n").err
    assert run("translate", "-q", "-", terminal=True, stdin=b"a\n") == (0, "A\n", "")


COMMANDS = ("translate", "summarize", "qa", "show-attention", "evaluate", "models")
ON_MODELS = ("list", "info", "check", "convert", "pull")
LEVELS = [(), *((c,) for c in COMMANDS), *(("evaluate", c) for c in COMMANDS[:3]), *(("models", c) for c in ON_MODELS)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_everywhere_with_examples_first(run: Run, level: tuple[str, ...], flag: str) -> None:
    status, out, err = run(*level, flag)
    assert (status, err) == (0, "")
    assert out.index("Examples:") < out.index("Options:")
    assert "130 interrupted" in " ".join(out.split())
    assert "\x1b" not in out
    assert "<list" not in out and "<str" not in out
    assert not [line for line in out.splitlines() if line.endswith("...") and not line.startswith("Usage:")]


def test_the_commands_are_listed_in_their_order(run: Run) -> None:
    _, _, listed = run("--help").out.partition("Commands:\n")
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")][:6] == list(COMMANDS)
    _, _, listed = run("evaluate", "--help").out.partition("Commands:\n")
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")][:3] == list(COMMANDS[:3])
    _, _, listed = run("models", "--help").out.partition("Commands:\n")
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")][:5] == list(ON_MODELS)


def test_help_states_defaults_and_flags(run: Run) -> None:
    text = " ".join(run("translate", "--help").out.split())
    for words in (
        "model's own, 4",
        "default: 32",
        "at most 4",
        "default: utf-8",
        "split ",
        "cut ",
        "looped ",
        "copied ",
    ):
        assert words in text


def test_version(run: Run) -> None:
    from tx import __version__

    assert run("--version") == (0, f"tx {__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("evaluate",), ("models",)])
def test_no_command(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "Examples:" in err


def test_unknown_command(run: Run) -> None:
    status, out, err = run("I love NLP")
    assert (status, out) == (2, "")
    assert "tx --help" in err

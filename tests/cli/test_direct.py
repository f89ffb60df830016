"""The short way past typer reads a command line as typer does, or leaves it alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tx.cli import app, commands, direct, main

COMMAND = app.command_tree().commands["translate"]
NAMES = sorted(direct.FLAGS | direct.VALUED)


def by_typer(arguments: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """What typer would call commands.translate with; None if it does not call it."""
    calls: list[dict[str, Any]] = []

    def translate(texts: list[str], files: list[str], output: str | None, **rest: Any) -> int:
        calls.append({"texts": texts, "files": files, "output": output, **rest})
        return 0

    with (
        mock.patch.object(commands, "translate", translate),
        mock.patch.dict(os.environ, environment, clear=True),
    ):
        app.main(arguments)
    return calls[0] if calls else None


def by_direct(arguments: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    values = direct.parse(arguments, environment)
    if values is not None:
        values.pop("debug")
    return values


def test_the_tables_are_what_typer_was_told() -> None:
    options = [p for p in COMMAND.params if p.param_type_name == "option" and not p.is_eager]
    assert not any(p.secondary_opts or p.nargs != 1 for p in options)
    flags = [p for p in options if p.is_flag]
    valued = [p for p in options if not p.is_flag]
    assert {name: p.name for p in flags for name in p.opts} == direct.FLAGS
    assert {name: p.name for p in valued for name in p.opts} == direct.VALUED
    assert {p.name for p in options if p.multiple} == direct.REPEATED
    assert {p.name: p.envvar for p in options if p.envvar} == direct.VARIABLES
    assert {p.name: p.default for p in valued if p.default} == direct.DEFAULTS
    assert not any(p.default for p in flags)
    assert [(p.name, p.nargs, p.envvar) for p in COMMAND.params if p not in options and not p.is_eager] == [
        ("text", -1, None)
    ]


tokens = st.one_of(
    st.sampled_from([*NAMES, *NAMES, "--", "-", "", "hi", "two words", "-5", "--nope", "-qo", "--beam=2", "-h", "---"]),
    st.text(alphabet="-=qioh5 é爱", max_size=4),
)
environments = st.fixed_dictionaries(
    {},
    optional={
        "TX_THREADS": st.sampled_from(["", "2", "x"]),
        "TX_ENGINE": st.sampled_from(["", "numpy", "x"]),
        "TX_MODEL": st.just("m"),
    },
)


@settings(max_examples=300, deadline=None)
@given(arguments=st.lists(tokens, max_size=6), environment=environments)
def test_it_declines_or_agrees_with_typer(arguments: list[str], environment: dict[str, str]) -> None:
    found = by_direct(["translate", *arguments], environment)
    assert found is None or found == by_typer(["translate", *arguments], environment)


options = st.one_of(
    st.sampled_from(sorted(direct.FLAGS)).map(lambda name: [name]),
    st.tuples(st.sampled_from(sorted(direct.VALUED)), st.sampled_from(["--", "-q"]) | st.text(max_size=3)).map(list),
)
words = st.just("-") | st.text(max_size=4).filter(lambda text: not text.startswith("-"))


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(st.one_of(options, words.map(lambda word: [word])), max_size=6),
    after=st.one_of(st.none(), st.lists(st.sampled_from(["-5", "--", "--json", "hi", ""]), max_size=3)),
    environment=environments,
)
def test_it_reads_all_that_is_plain(
    parts: list[list[str]], after: list[str] | None, environment: dict[str, str]
) -> None:
    arguments = ["translate", *[token for part in parts for token in part]]
    arguments += [] if after is None else ["--", *after]
    found = by_direct(arguments, environment)
    assert found is not None and found == by_typer(arguments, environment)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["--debug", "translate", "hi"],
        ["evaluate", "translate", "dev.tsv"],
        ["translate", "--help"],
        ["translate", "-h"],
        ["translate", "hi", "--nope"],
        ["translate", "--jso", "hi"],
        ["translate", "--beam=2", "hi"],
        ["translate", "-oout", "hi"],
        ["translate", "-qo", "out", "hi"],
        ["translate", "--beam"],
        ["translate", "-5"],
    ],
)
def test_it_leaves_the_rest_to_typer(arguments: list[str]) -> None:
    assert direct.parse(arguments, {}) is None


@pytest.mark.parametrize("name", ["tx", "tx-nlp"])
def test_it_leaves_completion_to_typer(name: str) -> None:
    variable = f"_{name}_COMPLETE".replace("-", "_").upper()
    assert direct.parse(["translate", "hi"], {variable: "complete_bash"}) is None


def test_debug_holds_for_a_plain_command(fake_pipeline: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["translate", "boom", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert main.main(["translate", "boom"]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "typers"), [(["hi"], []), (["-q", "--beam", "2", "--", "-5"], []), (["--beam=2", "hi"], ["typer"])]
)
def test_a_plain_command_does_without_typer(arguments: list[str], typers: list[str]) -> None:
    fake = str(Path(__file__).with_name("fake_tx.py"))
    code = (
        "import runpy, sys; sys.argv = ['tx', 'translate', *sys.argv[1:]]\n"
        f"try: runpy.run_path({fake!r}, run_name='__main__')\n"
        "finally: print([m for m in ('typer', 'click', 'rich') if m in sys.modules])"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TX_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, str(typers)), done.stderr

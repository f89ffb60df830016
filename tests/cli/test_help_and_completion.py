"""`tx help`, and completion as a real shell asks for it."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tx.cli import app, help_topics, main
from tx.cli.text_io import ExitStatus

GROUP: Any = app.command_tree()


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main.main(arguments)
    out, err = capfd.readouterr()
    return status, out, err


@pytest.mark.parametrize("topic", sorted(help_topics.TOPICS))
@pytest.mark.parametrize("columns", [40, 80])
def test_topics_are_plain_and_fit(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, topic: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, err = run(capfd, "help", topic)
    assert (status, err) == (0, "")
    assert len(out.splitlines()) < 70
    assert not [line for line in out.splitlines() if len(line) > columns and not line.startswith(" ")]
    assert not [line for line in out.splitlines() if len(line) > 80]


def test_help_lists_topics_and_commands(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capfd, "help")
    assert status == 0
    for name in (*help_topics.TOPICS, *GROUP.commands):
        assert name in out


@pytest.mark.parametrize("command", [("translate",), ("evaluate", "qa"), ("models", "pull"), ("help",)])
def test_help_of_a_command_is_its_help(capfd: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    assert run(capfd, "help", *command)[1] == run(capfd, *command, "--help")[1]


@pytest.mark.parametrize(
    ("names", "hint"),
    [(("stream",), "did you mean streams?"), (("xyz",), "there are: "), (("qa", "x"), "no help on 'x'")],
)
def test_help_on_nothing(capfd: pytest.CaptureFixture[str], names: tuple[str, ...], hint: str) -> None:
    status, out, err = run(capfd, "help", *names)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert hint in err


@pytest.mark.parametrize("names", [("nope",), ("xyz",)])
def test_what_there_is_is_named_once(capfd: pytest.CaptureFixture[str], names: tuple[str, ...]) -> None:
    known = run(capfd, "help", *names)[2].strip().partition("there are: ")[2].split(", ")
    assert sorted(known) == sorted({*help_topics.TOPICS, *GROUP.commands})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--beem", "3"], "no such option: --beem (did you mean --beam?; see tx translate --help)"),
        (["translate", "--xyz"], "no such option: --xyz (see tx translate --help)"),
        (["transalte", "hi"], "no such command 'transalte'; did you mean 'translate'? (see tx --help)"),
        (["models", "xyz"], "no such command 'xyz' (see tx models --help)"),
        (["translate", "--beam"], "option '--beam' requires an argument (see tx translate --help)"),
        (["evaluate", "qa"], "missing argument 'FILE.jsonl' (see tx evaluate qa --help)"),
        (["--nope"], "no such option: --nope (see tx --help)"),
    ],
)
def test_a_mistake_is_told_in_one_line(capfd: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(capfd, *arguments) == (2, "", f"tx: error: {message}\n")


def test_one_way_to_completion_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "--help")[1]
    assert "completion" in out and "-completion" not in out


def test_exit_codes_are_told_as_they_are() -> None:
    told = help_topics.TOPICS["exit-codes"]
    for status in ExitStatus:
        assert f"{int(status)} " in told or f", {int(status)}" in told


def test_the_formats_are_told_as_they_are() -> None:
    from tx.model.formats import _ENDINGS, FORMATS

    for word in (*FORMATS, *_ENDINGS):
        assert word in help_topics.TOPICS["formats"], word


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment where `tx` is a command and a model of the user's own has a name."""
    command = tmp_path / "bin" / "tx"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom tx.cli.main import main\nsys.exit(main())\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "data" / "tx" / "models" / "my-model").mkdir(parents=True)
    (tmp_path / "data" / "tx" / "models" / "my-model" / "config.json").write_text("{}")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TX_")}
    return kept | {
        "PATH": f"{command.parent}:{kept['PATH']}",
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


@functools.cache
def bash_script() -> str:
    done = subprocess.run([sys.executable, "-m", "tx.cli", "completion", "bash"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def completed(home: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{bash_script()}\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
        "function_of=$(complete -p tx); function_of=${function_of##*-F }; ${function_of%% *} tx\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, env=home)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (("tx", "tra"), ["translate"]),
        (("tx", "evaluate", ""), ["translate", "summarize", "qa"]),
        (("tx", "translate", "--no-p"), ["--no-progress"]),
        (("tx", "translate", "--engine", ""), ["auto", "numpy", "torch"]),
        (("tx", "translate", "--model", ""), ["en-zh", "my-model"]),
        (("tx", "models", "info", "my"), ["my-model"]),
        (("tx", "show-attention", "--kind", "en"), ["encoder"]),
        (("tx", "translate", "--to", ""), ["en", "zh"]),
        (("tx", "translate", "--format", "mark"), ["markdown"]),
        (("tx", "help", "exit"), ["exit-codes"]),
        (("tx", "completion", "z"), ["zsh"]),
        (("tx", "translate", "-i", ""), []),  # bash offers files
    ],
)
def test_bash_completes(home: dict[str, str], words: tuple[str, ...], offers: list[str]) -> None:
    assert completed(home, *words) == offers


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(home: dict[str, str], shell: str) -> None:
    done = subprocess.run(["tx", "completion", shell], capture_output=True, text=True, timeout=60, env=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_TX_COMPLETE=complete_{shell}" in done.stdout
    if shutil.which(shell):
        parsed = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, timeout=60)
        assert (parsed.returncode, parsed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shell", "asked", "offer"),
    [
        ("zsh", "tx trans", "translate"),
        ("fish", "tx trans", "translate"),
        ("zsh", "tx translate --model my", "my-model"),
    ],
)
def test_other_shells_ask_and_are_answered(home: dict[str, str], shell: str, asked: str, offer: str) -> None:
    question = {
        "_TX_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": asked,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(["tx"], capture_output=True, text=True, timeout=60, env=home | question)
    assert offer in done.stdout
    assert done.stderr == ""


def test_a_broken_configuration_does_not_stop_completion(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tx").mkdir()
    (tmp_path / "tx" / "config.toml").write_text("nonsense")
    assert completed(home, "tx", "tra") == ["translate"]

"""The configuration file: what it may say, what comes before it, and errors that name its lines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from tx.cli import app, main, user_settings
from tx.cli.user_settings import FLAGS, OPTIONS, VARIABLES, config_path, for_command, read
from tx.model.errors import ConfigError

GROUP: Any = typer.main.get_command(app.app)
# Options that name what one run reads, writes or asks; a file that set them would do harm or nothing.
READ_OR_WRITTEN = {"input", "output", "suffix", "in-place", "text", "context", "limit", "among", "revision"}
OF_ONE_RUN = READ_OR_WRITTEN | {"question", "questions", "target", "row", "part", "debug", "help"}


def command(name: str) -> Any:
    found = GROUP
    for part in name.split("."):
        found = found.commands[part]
    return found


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """write(text): the configuration file of this test; gives its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TX_CONFIG", raising=False)
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)

    def write_file(text: str | bytes) -> Path:
        path = tmp_path / "tx" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


@pytest.fixture(params=[main, app], ids=["main", "app"])
def run(
    request: pytest.FixtureRequest,
    fake_pipeline: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Any:
    def run_tx(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        status = request.param.main(arguments)
        out, err = capsysbinary.readouterr()
        return status, out.decode(), err.decode()

    return run_tx


def test_the_tables_are_what_typer_was_told() -> None:
    leaves = [name for name, one in GROUP.commands.items() if not hasattr(one, "commands")]
    leaves += [f"{n}.{inner}" for n, one in GROUP.commands.items() for inner in getattr(one, "commands", ())]
    assert set(OPTIONS) <= set(leaves)
    flags, variables = set(), {}
    for name in leaves:
        options = [p for p in command(name).params if p.param_type_name == "option"]
        long = {next(o[2:] for o in p.opts if o.startswith("--")): p for p in options}
        if name in OPTIONS:
            assert set(OPTIONS[name].split()) == set(long) - OF_ONE_RUN, name
            flags |= {key for key, p in long.items() if p.is_flag and key not in OF_ONE_RUN}
            variables |= {key: p.envvar for key, p in long.items() if p.envvar}
        else:
            assert not set(long) - OF_ONE_RUN - {"json"}, name
    assert set(FLAGS) == flags
    assert variables == VARIABLES


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"TX_CONFIG": "/x.toml", "XDG_CONFIG_HOME": "/c"}, "/x.toml"),
        ({"TX_CONFIG": ""}, ""),
        ({"XDG_CONFIG_HOME": "/c"}, "/c/tx/config.toml"),
        ({"XDG_CONFIG_HOME": "c"}, "~/.config/tx/config.toml"),
        ({}, "~/.config/tx/config.toml"),
    ],
)
def test_where_it_is(environment: dict[str, str], path: str) -> None:
    assert config_path(environment) == os.path.expanduser(path)


def test_a_table_comes_before_the_top(write: Any) -> None:
    path = write(
        "threads = 2\nbeam = 1\n\n[translate]\nthreads = 3\n[evaluate]\nbeam=5\n[evaluate.qa]\nthreshold=0.5\n"
    )
    settings = read(str(path))
    said = {name: {key: s.value for key, s in for_command(settings, name).items()} for name in OPTIONS}
    assert said["translate"] == {"threads": "3", "beam": "1"}
    assert said["summarize"] == {"threads": "2"}
    assert said["evaluate.translate"] == {"threads": "2", "beam": "5"}
    assert said["evaluate.qa"] == {"threads": "2", "threshold": "0.5"}
    assert said["models.list"] == {}


def test_flag_before_environment_before_file_before_default(
    run: Any, write: Any, fake_pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def threads(*arguments: str) -> Any:
        assert run("translate", *arguments, "a")[0] == 0
        return fake_pipeline.made[-1]["threads"]

    assert threads() is None
    write("threads = 2\n")
    assert threads() == 2
    write("threads = 2\n[translate]\nthreads = 3\n")
    assert threads() == 3
    monkeypatch.setenv("TX_THREADS", "4")
    assert threads() == 4
    assert threads("--threads", "5") == 5
    assert threads("--threads=5") == 5
    monkeypatch.setenv("TX_THREADS", "")
    assert threads() == 3
    monkeypatch.setenv("TX_CONFIG", "")
    assert threads() is None


def test_all_kinds_of_options(run: Any, write: Any, fake_pipeline: ModuleType) -> None:
    write('[translate]\nmodel = "m"\nfrom = "en"\njson = true\nquiet = true\nengine = "torch"\nbeam = 3\n')
    status, out, err = run("translate", "cut")
    assert (status, err) == (0, "")
    assert json.loads(out)["from"] == "en"
    assert fake_pipeline.made[-1] | {"threads": 0} == {"model": "m", "device": "cpu", "threads": 0, "engine": "torch"}
    assert run("translate", "--no-json", "cut") == (0, "CUT\n", "")
    assert run("translate", "--no-json", "--no-quiet", "cut")[2].startswith("tx: warning: ")
    assert run("translate", "-o", "--no-json", "--no-jso", "x")[0] == 2


def test_a_flag_is_not_turned_off_by_a_value_or_a_text(run: Any, write: Any, tmp_path: Path) -> None:
    write("json = true\n")
    assert run("translate", "--", "--no-json")[1].startswith('{"source": "--no-json"')
    assert run("translate", "--to", "--no-json", "x")[0] == 2


def test_what_the_command_line_says_takes_the_place_of_its_opposite(write: Any) -> None:
    path = write("[summarize]\nextract = true\n")
    settings = for_command(read(str(path)), "summarize")
    assert list(user_settings.without_opposites(settings, ["summarize"])) == ["extract"]
    assert list(user_settings.without_opposites(settings, ["summarize", "--rewrite"])) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beams = 3", "line 1: unknown setting 'beams'; did you mean 'beam'?"),
        ("\n# to = 1\n\nthreds = 3", "line 4: unknown setting 'threds'; did you mean 'threads'?"),
        (
            "threads = 1\n[translate]\nthreads = 2\nword = 3\n",
            "line 4: unknown setting 'word' in [translate]; there are ",
        ),
        ("[tarnslate]\nbeam = 1", "line 1: there is no command 'tarnslate'; did you mean 'translate'?"),
        ("[evaluate.nope]\nx = 1", "line 1: there is no command 'evaluate nope'; "),
        ("beam = 1\n[translate]\nbeam = [1]\n", "line 3: beam needs a text or a number, not [1]"),
        ("beam = true", "line 1: beam needs a text or a number, not true"),
        ('json = "yes"', "line 1: json is true or false, not 'yes'"),
        ('to = ""', "line 1: to is empty"),
        ("to = zh", "line 1 is no TOML: invalid value"),
        ("a = 1\na = 2", "line 2 is no TOML: cannot overwrite a value"),
        ("to = 'zh", "is no TOML"),
        (b"# caf\xe9\n", "line 1 is not UTF-8"),
        (b"a\n\xff", "line 2 is not UTF-8"),
        ("[" * 5000, "no"),
        ("a = " + "[" * 5000, "no"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_line(run: Any, write: Any, text: str | bytes, message: str) -> None:
    path = write(text)
    status, out, err = run("translate", "hi")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"tx: error: {path}")
    assert message in err
    assert run("config", "show")[0] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam = 0", "line 1: --beam needs a whole number from 1 to 64, not '0'"),
        ('[translate]\nencoding = "klingon"', "line 2: unknown encoding 'klingon'"),
        ('\nengine = "abacus"', "line 2: --engine must be one of"),
        ('model = "/nope"', "line 1: no model at /nope"),
    ],
)
def test_a_wrong_value_names_its_line(run: Any, write: Any, text: str, message: str) -> None:
    path = write(text)
    status, out, err = run("translate", "hi")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"tx: error: {path} {message}")


def test_the_file_is_not_blamed_for_the_command_line(run: Any, write: Any) -> None:
    write("beam = 0")
    assert run("translate", "--beam", "1", "hi") == (0, "HI\n", "")
    message = "tx: error: --beam needs a whole number from 1 to 64, not 'x'\n"
    assert run("translate", "--beam", "x", "hi") == (2, "", message)


def test_help_works_whatever_the_file_says(run: Any, write: Any) -> None:
    write("nope = 1")
    for arguments in (["--help"], ["translate", "-h"], ["help", "config"], ["config", "path"], ["--version"]):
        assert run(*arguments)[0] == 0


def test_a_file_that_is_named_must_be_there(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TX_CONFIG", str(tmp_path / "nope.toml"))
    status, out, err = run("translate", "hi")
    assert (status, out) == (1, "")
    assert err == f"tx: error: no such file: {tmp_path / 'nope.toml'} (TX_CONFIG names it)\n"
    monkeypatch.setenv("TX_CONFIG", str(tmp_path))
    assert run("translate", "hi")[0] == 1


def test_show_says_where_each_value_comes_from(run: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('threads = 2\nengine = "numpy"\n[translate]\nto = "zh"\njson = true\nengine = "torch"\n')
    monkeypatch.setenv("TX_ENGINE", "torch")
    status, out, err = run("config", "show", "--json")
    assert (status, err) == (0, "")
    rows = {row["setting"]: (row["value"], row["origin"]) for row in map(json.loads, out.splitlines())}
    assert rows["threads"] == ("2", f"{path} line 1")
    assert rows["engine"] == ("torch", "TX_ENGINE")
    assert "translate.engine" not in rows  # the environment comes before it
    assert rows["translate.to"] == ("zh", f"{path} line 4")
    assert rows["translate.json"] == ("true", f"{path} line 5")
    assert rows["encoding"] == ("utf-8", "default")
    assert rows["batch-size"] == ("32", "default")
    assert set(rows) >= {key for options in OPTIONS.values() for key in options.split()}
    status, out, _ = run("config", "show")
    assert out.splitlines()[0] == f"# {path}"
    assert ["threads", "2", str(path), "line", "1"] in [line.split() for line in out.splitlines()]
    assert run("config", "path") == (0, f"{path}\n", "")
    path.unlink()
    assert "there is no such file" in run("config", "show")[1]


def test_a_plain_command_does_not_pay_for_a_file_that_is_not_there(tmp_path: Path) -> None:
    fake = str(Path(__file__).with_name("fake_tx.py"))
    code = (
        "import runpy, sys; sys.argv = ['tx', 'translate', 'hi']\n"
        f"try: runpy.run_path({fake!r}, run_name='__main__')\n"
        "finally: print([m for m in ('tx.cli.user_settings', 'tomllib', 'tomli', 'typer') if m in sys.modules])"
    )
    found = []
    for text in (None, 'to = "zh"\n'):
        if text:
            (tmp_path / "tx").mkdir()
            (tmp_path / "tx" / "config.toml").write_text(text)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TX_")}
        environment["XDG_CONFIG_HOME"] = str(tmp_path)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
        found.append(done.stdout.splitlines())
    toml = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    assert found == [["HI", "[]"], ["HI", f"['tx.cli.user_settings', '{toml}']"]]


def test_a_line_is_found_however_its_key_is_written(write: Any) -> None:
    text = '"beam" = 1\n[ translate ]\nevaluate.x = 1\n'
    assert user_settings._line_of(text, "", "beam") == 1
    assert user_settings._line_of("a=1\ntranslate.to = 1\n", "", "translate") == 2
    assert user_settings._line_of("[a]\nto=1\n[ translate ]\n'to' = 2\n", "translate", "to") == 4
    assert user_settings._line_of("x = {to = 1}", "x", "to") == 1
    with pytest.raises(ConfigError, match="line 2: unknown setting 'x'"):
        read(str(write("[translate]\nx = 1\n")))

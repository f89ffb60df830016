"""The configuration file: what it may say, what comes before it, and errors that name its lines."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tx.cli import app, main, parser, user_settings
from tx.cli.user_settings import FLAGS, OPTIONS, VARIABLES, config_path, for_command, read
from tx.model import attending
from tx.model.errors import CheckpointError, ConfigError, InputError, TxError, UsageError
from tx.model.results import AttentionMap

GROUP: Any = app.command_tree()
# Options that name what one run reads, writes or asks; a file that set them would do harm or nothing.
READ_OR_WRITTEN = {"input", "output", "resume", "suffix", "in-place", "text", "context", "limit", "among", "revision"}
OF_ONE_RUN = READ_OR_WRITTEN | {"question", "questions", "target", "row", "part", "debug", "help"}
# What tx bench compares, or does so often: another thing than what these names mean elsewhere.
OF_BENCH = {"engine", "precision", "batch-size", "sentences", "rounds", "file", "against", "peer-python", "jobs"}


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


@pytest.fixture(autouse=True)
def _attention_of_no_model(make_map: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Attender:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.runtime = SimpleNamespace()

        def attend(self, *_: Any, **__: Any) -> list[AttentionMap]:
            return [make_map(["h", "i"], ["你", "好"])]

        def align(self, _: Any) -> list[tuple[int, int]]:
            return [(0, 0)]

    monkeypatch.setattr(attending, "Attender", Attender)


def test_the_tables_are_what_typer_was_told() -> None:
    leaves = [name for name, one in GROUP.commands.items() if not hasattr(one, "commands")]
    leaves += [f"{n}.{inner}" for n, one in GROUP.commands.items() for inner in getattr(one, "commands", ())]
    assert set(OPTIONS) <= set(leaves)
    flags, variables = set(), {}
    for name in leaves:
        options = [p for p in command(name).params if p.param_type_name == "option"]
        long = {next(o[2:] for o in p.opts if o.startswith("--")): p for p in options}
        if name in OPTIONS:
            only_here = OF_ONE_RUN | (OF_BENCH if name == "bench" else set())
            assert set(OPTIONS[name].split()) == set(long) - only_here, name
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
        ("beam = 0", "line 1: beam needs a whole number from 1 to 64, not '0'"),
        ('[translate]\nencoding = "klingon"', "line 2: unknown encoding 'klingon'"),
        ('\nengine = "abacus"', "line 2: engine must be one of"),
        ('model = "/nope"', "line 1: no model at /nope"),
    ],
)
def test_a_wrong_value_names_its_line(run: Any, write: Any, text: str, message: str) -> None:
    path = write(text)
    status, out, err = run("translate", "hi")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"tx: error: {path} {message}")


# A wrong value of each option that takes one, and a command that has it; the commands of evaluate check as the others do.
WRONG = {
    "encoding": ("translate", "klingon"),
    "model": ("translate", "/nope"),
    "threads": ("translate", "abc"),
    "device": ("translate", "tpu"),
    "engine": ("translate", "abacus"),
    "format": ("translate", "word"),
    "field": ("translate", "nope"),
    "from": ("translate", "xx"),
    "to": ("translate", "xx"),
    "beam": ("translate", "0"),
    "batch-size": ("translate", "many"),
    "jobs": ("translate", "many"),
    "precision": ("translate", "fp8"),
    "max-memory": ("translate", "lots"),
    "glossary": ("translate", "/nope.tsv"),
    "n-best": ("translate", "-1"),
    "words": ("summarize", "few"),
    "sentences": ("summarize", "1.5"),
    "top-k": ("qa", "x"),
    "threshold": ("qa", "low"),
    "task": ("show-attention", "sing"),
    "kind": ("show-attention", "kind"),
    "layer": ("show-attention", "top"),
    "head": ("show-attention", "0"),
    "top": ("show-attention", "0"),
    "scale": ("show-attention", "big"),
    "color": ("show-attention", "red"),
    "background": ("show-attention", "pink"),
    "width": ("show-attention", "1"),
}


def test_all_valued_settings_have_a_wrong_value() -> None:
    assert set(WRONG) == {key for options in OPTIONS.values() for key in options.split()} - set(FLAGS)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, list[str]]:
    """Arguments for each command, with which it does something; and for the setting "field"."""
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n")
    return {
        "translate": ["translate", "hi"],
        "field": ["translate", "-i", str(tmp_path / "rows.csv")],
        "summarize": ["summarize", "-t", "Anna met Bob. They went home."],
        "qa": ["qa", "Who?", "-c", "Anna met Bob."],
        "show-attention": ["show-attention", "hi"],
    }


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_blamed_on_where_it_stands(
    run: Any, write: Any, inputs: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    command, value = WRONG[key]
    arguments = inputs.get(key, inputs[command])
    path = write(f"json = false\n[{command}]\n{key} = {json.dumps(value)}\n")
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith(f"tx: error: {path} line 3: ")
    assert "--" + key not in err
    path.unlink()
    if key in VARIABLES:
        monkeypatch.setenv(VARIABLES[key], value)
        status, out, err = run(*arguments)
        assert (status, out, err.count("\n")) == (1 if key == "model" else 2, "", 1), err
        assert err.startswith(f"tx: error: {VARIABLES[key]}")
        assert "--" + key not in err
    status, out, err = run(*arguments, f"--{key}", value)
    assert (status in (1, 2), out, err.count("\n")) == (True, "", 1)
    assert "TX_" not in err and str(path) not in err


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ('device = "cuda"', UsageError("no device 'cuda' on this machine; use cpu")),
        ('model = "m"', CheckpointError("no model 'm': no such folder")),
        ('to = "xx"', UsageError("the model m does not translate en → xx; it translates en → zh")),
        ('glossary = "terms.tsv"', InputError("terms.tsv line 1 is no term")),
        ('field = ["a", "b"]', UsageError("x.csv: there is no column b")),
    ],
)
def test_what_names_no_option_is_blamed_too(write: Any, text: str, raised: TxError) -> None:
    path = write(text)
    settings = for_command(read(str(path)), "translate")
    with pytest.raises(ConfigError, match=re.escape(f"{path} line 1: {raised}")):
        user_settings.again(raised, lambda _: 0, settings, ["translate", "hi"])
    other = TxError("the disk is full")
    with pytest.raises(TxError) as found:
        user_settings.again(other, lambda _: 0, settings, ["translate", "hi"])
    assert found.value is other


@pytest.mark.parametrize(
    "words", ["has no shortlist: leave that out", "does not say its languages: do not give any, and it translates"]
)
def test_what_the_model_has_no_use_for_is_left_out(write: Any, capsys: pytest.CaptureFixture[str], words: str) -> None:
    settings = for_command(read(str(write('shortlist = true\nto = "zh"\nfrom = "en"\nbeam = 2\n'))), "translate")
    error = UsageError(f"the model m {words}")

    def run(left: Any) -> int:
        if {"shortlist"} & set(left) if "shortlist" in words else {"from", "to"} & set(left):
            raise error
        return len(left)

    assert user_settings.again(error, run, settings, ["translate", "hi"]) == (3 if "shortlist" in words else 2)
    assert capsys.readouterr().err.count(" is left out: the model m ") == (1 if "shortlist" in words else 2)


def test_a_tilde_is_the_home_folder(run: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.tsv").write_text("word\t词\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    write('glossary = "~/g.tsv"\n[qa]\nmodel = "~/m"')
    assert run("translate", "a word") == (0, "A 词\n", "")
    assert [setting.value for setting in read(config_path(os.environ))] == [f"{tmp_path}/g.tsv", f"{tmp_path}/m"]


@pytest.mark.parametrize(
    ("text", "arguments", "noted", "same"),
    [
        ("n-best = 3", ["translate", "-i", "page.html"], "n-best", []),
        ("json = true", ["translate", "-i", "page.html"], "json", []),
        ("[translate]\nscore = true\nalign = true\nparagraph = true", ["translate", "-i", "page.html"], "score", []),
        ("n-best = 3\nalign = true", ["translate", "hi"], "align", ["--n-best", "3"]),
        ("json = true", ["translate", "-i", "a.txt", "--in-place"], "json", []),
        ('field = "text"', ["translate", "hi"], "field", []),
        ('[translate]\nformat = "html"', ["translate", "--json", "hi"], "format", ["--json"]),
        ('engine = "numpy"', ["translate", "--device", "cuda", "hi"], "engine", []),
        ("[summarize]\nrewrite = true\nextract = true", ["summarize", "-t", "One. Two three."], "", []),
        ('color = "always"', ["show-attention", "-o", "map.svg", "hi"], "", []),
        ('kind = "encoder"', ["show-attention", "--format", "moses", "hi"], "", []),
        ("json = true", ["show-attention", "--format", "csv", "hi"], "", []),
        ('[show-attention]\nfrom = "en"', ["show-attention", "--task", "qa", "--question", "Who?", "hi."], "", []),
    ],
)
def test_a_setting_that_does_not_go_with_the_rest_is_left_out(
    run: Any,
    write: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    arguments: list[str],
    noted: str,
    same: list[str],
) -> None:
    def results() -> tuple[int, str, str, list[str]]:
        (tmp_path / "page.html").write_text("<p>hello</p>\n")
        (tmp_path / "a.txt").write_text("hello\n")
        status, out, err = run(*arguments, *more)
        return status, out, err, [file.read_text() for file in tmp_path.glob("*.*")]

    monkeypatch.chdir(tmp_path)
    more = same
    expected = results()
    path = write(text)
    more = []
    status, out, err, files = results()
    assert (status, out, files) == (expected[0], expected[1], expected[3]), err
    assert status == 0
    notes = [line for line in err.splitlines() if " is left out: " in line]
    assert err.splitlines() == notes + expected[2].splitlines()
    assert bool(notes) == bool(noted)
    assert not notes or notes[0].startswith(f"tx: note: {noted} ({path} line ")
    if noted:
        more = ["-q"]
        assert " is left out: " not in results()[2]


def test_a_variable_that_does_not_go_with_the_rest_is_left_out(
    run: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TX_COLOR", "never")
    assert run("show-attention", "-o", str(tmp_path / "map.svg"), "hi")[::2] == (0, "")
    assert (tmp_path / "map.svg").exists()
    monkeypatch.setenv("TX_ENGINE", "numpy")
    status, out, err = run("translate", "--device", "cuda", "hi")
    assert (status, out) == (0, "HI\n")
    assert err.startswith("tx: note: engine (TX_ENGINE) is left out: --engine numpy computes on the cpu only")
    assert os.environ["TX_ENGINE"] == "numpy"


def test_what_the_command_line_itself_contradicts_stays_an_error(run: Any, write: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>hello</p>")
    for text in ("", "n-best = 2\n", "score = true\nn-best = 2\n"):
        write(text)
        status, out, err = run("translate", "-i", str(page), "--n-best", "3")
        assert (status, out, err.splitlines()[-1][:42]) == (2, "", "tx: error: --n-best is for plain lines, an")


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in OPTIONS for key in OPTIONS[name].split()])
def test_every_setting_can_be_undone(write: Any, monkeypatch: pytest.MonkeyPatch, name: str, key: str) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(parser.Command, "invoke", lambda _, context: calls.append(context.params))
    arguments = [*name.split("."), *["x" for p in command(name).params if p.param_type_name == "argument"][:1]]
    undo = f"--{key[3:]}" if key.startswith("no-") else f"--no-{key}"
    value = "true" if key in FLAGS else '"a text"'
    write("")
    assert app.main(arguments) == 0
    write(f"[{name}]\n{key} = {value}\n")
    assert app.main(arguments) == app.main([*arguments, undo]) == 0
    assert calls[0] == calls[2] != calls[1]


def test_the_last_of_an_option_and_what_undoes_it_counts(run: Any) -> None:
    assert run("translate", "--json", "--no-json", "hi") == (0, "HI\n", "")
    assert run("translate", "--no-json", "--score", "--no-score", "--score", "hi") == (0, "-0.1235\tHI\n", "")
    assert run("translate", "--n-best", "2", "--beam=9x", "--no-n-best", "--no-beam", "hi") == (0, "HI\n", "")
    assert run("translate", "-q", "--no-quiet", "looped")[2] != ""
    assert run("translate", "hi", "--", "--no-json") == (0, "HI\n--NO-JSON\n", "")
    for no_option in ("--no-output", "--no-file", "--no-input", "--no-debug", "--no-no-json", "--no"):
        assert run("translate", no_option, "hi")[0] == 2


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
    said = {
        "kind": "cross",
        "layer": "last",
        "head": "mean",
        "scale": "row",
        "color": "auto",
        "to": "en for zh, else zh",
    }
    assert {key: rows[key] for key in said} == {key: (value, "default") for key, value in said.items()}
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

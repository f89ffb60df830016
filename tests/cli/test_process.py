"""`tx` as a process of its own: pipes, signals, locales, and what is imported when. No model is needed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAKE = str(Path(__file__).with_name("fake_tx.py"))
HEAVY = ("torch", "numpy", "tokenizers", "safetensors", "rich", "pydantic", "transformers")


def environment(**changes: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("TX_", "PYTHONUNBUFFERED"))} | changes


def fake_tx(*arguments: str | bytes, **settings: object) -> subprocess.CompletedProcess[bytes]:
    settings.setdefault("input", b"")
    return subprocess.run([sys.executable, FAKE, *arguments], capture_output=True, timeout=60, **settings)  # type: ignore[call-overload, no-any-return]


def test_help_and_mistakes_import_nothing_heavy() -> None:
    commands = ["--help", "translate --help", "translate --nope", "--version", "evaluate translate -h", "", "help"]
    commands += ["completion bash", "config path", "config show", "help exit-codes", "summarize -h", "qa --nope"]
    code = (
        "import sys; from tx.cli.main import main\n"
        f"statuses = {{main(words.split()) for words in {commands}}}\n"
        f"print(statuses, [m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment())
    assert done.stderr.splitlines()[-1] == "{0, 2} []"


def test_completion_imports_nothing_heavy() -> None:
    code = (
        "import atexit, sys; sys.argv = ['tx']; from tx.cli.main import main; "
        f"atexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)); main()"
    )
    changes = {"_TX_COMPLETE": "complete_bash", "COMP_WORDS": "tx tran", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment(**changes)
    )
    assert done.stdout.split() == ["translate"]
    assert done.stderr.splitlines() == ["[]"]


@pytest.mark.parametrize("module", ["tx.cli", "tx.cli.app"])
def test_module_runs(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "tx", "")


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_broken_pipe_is_silent(unbuffered: dict[str, str]) -> None:
    receiving, sending = os.pipe()
    process = subprocess.Popen(
        [sys.executable, FAKE, "translate"],
        stdin=subprocess.PIPE,
        stdout=sending,
        stderr=subprocess.PIPE,
        env=environment(**unbuffered),
    )
    os.close(sending)
    assert process.stdin
    process.stdin.write(b"hi\n")
    process.stdin.flush()
    assert os.read(receiving, 100) == b"HI\n"
    os.close(receiving)
    _, err = process.communicate(b"more\n" * 5000, timeout=60)
    assert (process.returncode, err) == (0, b"")


def test_broken_pipe_of_help_is_silent() -> None:
    receiving, sending = os.pipe()
    os.close(receiving)
    done = subprocess.run(
        [sys.executable, FAKE, "--help"], stdout=sending, stderr=subprocess.PIPE, timeout=60, env=environment()
    )
    os.close(sending)
    assert (done.returncode, done.stderr) == (0, b"")


def test_first_line_arrives_before_the_writer_closes() -> None:
    process = subprocess.Popen([sys.executable, FAKE, "translate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    for word in (b"one", b"two"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 30)[0], "nothing came while the pipe was open"
        assert os.read(process.stdout.fileno(), 100) == word.upper() + b"\n"
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == 0


def test_interrupt_keeps_finished_lines_and_says_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, FAKE, "translate", "--batch-size", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stdout
    process.stdin.write(b"done\n")
    process.stdin.flush()
    assert os.read(process.stdout.fileno(), 100) == b"DONE\n"
    process.stdin.write(b"sleep\n")
    process.stdin.flush()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_half_file(tmp_path: Path, number: int, status: int) -> None:
    command = [sys.executable, FAKE, "translate", "-o", str(tmp_path / "out"), "sleep"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (status, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("load", ["import tx.cli.app", "from tx.cli.main import main; sys.exit(main(['--help']))"])
def test_interrupt_while_loading_says_nothing(tmp_path: Path, load: str) -> None:
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    (tmp_path / "typer.py").write_text(slow)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {load}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("module", ["tx.cli.main", "tx.cli.app"])
def test_importing_the_command_line_leaves_signals_as_they_were(module: str) -> None:
    code = f"import signal as s; import {module}; print(s.getsignal(s.SIGINT) is s.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("module", ["main", "app"])
@pytest.mark.parametrize("option", [[], ["--beam=2"]])
def test_garbage_is_collected_once_all_is_loaded(module: str, option: list[str]) -> None:
    code = (
        f"import gc, runpy, sys; import tx.cli.{module}; assert gc.isenabled() and not gc.get_freeze_count()\n"
        f"states = []; sys.argv = ['tx', 'translate', *{option}, 'a', 'b']\n"
        f"fake = runpy.run_path({FAKE!r}); Translator = fake['Translator']\n"
        "real = Translator.translate\n"
        "Translator.translate = lambda *args, **kw: (states.append(gc.isenabled()), real(*args, **kw))[1]\n"
        f"sys.modules['tx.model.pipeline'] = fake['pipeline'](); tx.cli.{module}.main()\n"
        "print(states, gc.isenabled(), gc.get_freeze_count() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["A", "B", "[False, False, True] True True"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["translate", "--help"], ["translate", "hi"]])
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, FAKE, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60)
    message = b"tx: error: cannot write the standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_completion_without_a_shell_is_one_line() -> None:
    code = "import sys; sys.argv = ['tx']; from tx.cli.main import main; sys.exit(main())"
    env = {k: v for k, v in environment(_TX_COMPLETE="complete_bash").items() if not k.startswith("COMP_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "COMP_WORDS is not set" in done.stderr


@pytest.mark.parametrize(
    "changes", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_output_is_utf8_under_every_locale(changes: dict[str, str]) -> None:
    env = environment(**changes)
    text = "我爱你 é\n".encode()
    assert fake_tx("translate", input=text, env=env).stdout == "我爱你 É\n".encode()
    assert fake_tx("translate", text.strip(), env=env).stdout == "我爱你 É\n".encode()
    assert "我们".encode() in fake_tx("--help", env=env).stdout


def test_a_long_pipe_keeps_memory_bounded() -> None:
    code = (
        "import resource, runpy, sys\n"
        "sys.argv = ['tx', 'translate', '-o', '/dev/null']\n"
        "try:\n"
        f"    runpy.run_path({FAKE!r}, run_name='__main__')\n"
        "finally:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    peaks = []
    for lines in (300, 40_000):
        data = b"x" * 400 + b"\n"
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        _, err = process.communicate(data * lines, timeout=60)
        assert process.returncode == 0
        peaks.append(int(err))
    assert peaks[1] - peaks[0] < 8_000  # KiB, where all the input would be 16 MB

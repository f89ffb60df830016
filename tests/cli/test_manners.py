"""How `tx` behaves among other programs: what people have met elsewhere and should not meet here. Every test starts `tx` as
a process of its own; a translator that writes in capitals, or the text itself, stands in where a model has no part in it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import random
import re
import resource
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tx.cli import main, progress

Here = Callable[..., tuple[int, bytes, bytes]]
FAKE = [sys.executable, str(Path(__file__).with_name("fake_tx.py"))]
REAL = [sys.executable, "-m", "tx.cli"]


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TX_", "PYTHONUNBUFFERED", "FAKE_TX"))}
    return kept | {"TX_CONFIG": ""} | changes


def run(
    *arguments: str,
    text: str | bytes = b"",
    program: Sequence[str] = FAKE,
    env: dict[str, str] | None = None,
    **more: Any,
) -> subprocess.CompletedProcess[bytes]:
    data = text.encode() if isinstance(text, str) else text
    more = {"stdin": None, "input": data} | more if "stdin" not in more else more
    more = {key: value for key, value in more.items() if (key, value) != ("stdin", None)}
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run([*program, *arguments], env=env or environment(), timeout=120, **more)


def shell(
    script: str, env: dict[str, str] | None = None, program: Sequence[str] = FAKE
) -> subprocess.CompletedProcess[bytes]:
    """A script of bash in which tx is the program."""
    tx = " ".join(f"'{word}'" for word in program)
    script = f'tx() {{ {tx} "$@"; }}\n{script}'
    return subprocess.run(["bash", "-c", script], capture_output=True, env=env or environment(), timeout=120)


@pytest.fixture
def here(
    fake_pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Here:
    """The same in this process, for what needs none of its own."""

    def run_here(*arguments: str, text: str = "") -> tuple[int, bytes, bytes]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsysbinary.readouterr()
        return main.main(arguments), *capsysbinary.readouterr()

    return run_here


# Lines, whitespace, length


@pytest.mark.parametrize(
    "text",
    [
        "a\n\n   \nb\n",
        "\n",
        "",
        " \t \n",
        "one\n\ntwo\n\n\n\nthree\n",
        "  hello  \n",
        "\thello\t\n",
        "\u3000\u00a0\n",  # wide and no-break spaces are blank too
        "no end",
        "a\r\n\r\nb\r\n",
        "a\r\nb\nc",
        "nul \0 byte\n",
        "a\u2028b\x0bc\x85d\x0ce\n",
        "\n\n\n",
        "…" * 70_000 + "\nnext\n",
    ],
)
def test_the_text_itself_comes_back_to_the_byte(text: str) -> None:
    done = run("translate", "-q", text=text, env=environment(FAKE_TX="identity"))
    assert (done.returncode, done.stdout, done.stderr) == (0, text.encode(), b"")


@pytest.mark.usefixtures("real_weights")
def test_blank_lines_paragraphs_and_indentation_with_the_model() -> None:
    text = "Good morning.\n\n   \n  Thank you.  \n\t\n"
    done = run("translate", text=text, program=REAL)
    lines = done.stdout.decode().split("\n")
    assert done.returncode == 0 and len(lines) == 6
    assert [lines[1], lines[2], lines[4], lines[5]] == ["", "   ", "\t", ""]
    assert re.fullmatch("  [^ ].*[^ ]  ", lines[3])
    assert run("translate", text="\n", program=REAL).stdout == b"\n"


def test_a_byte_order_mark_is_dropped() -> None:
    assert run("translate", text=b"\xef\xbb\xbfa\n").stdout == b"A\n"


WRAPPED = """\
The old bridge over the river was
built in 1902 and has been repaired
many times since then, most of all
after the flood.

A second paragraph.
"""


def test_wrapped_lines_are_lines_or_paragraphs_as_asked() -> None:
    by_line = run("translate", text=WRAPPED).stdout.decode()
    assert by_line == WRAPPED.upper()
    joined = run("translate", "--paragraph", text=WRAPPED).stdout.decode().split("\n")
    assert joined == [" ".join(WRAPPED.upper().split("\n\n")[0].split("\n")), "", "A SECOND PARAGRAPH.", ""]


def test_paragraphs_keep_their_places_in_messages_and_the_order_of_all() -> None:
    text = WRAPPED + "\nlooped\n" + "x" * 70_000 + "\n" + WRAPPED
    done = run("translate", "--paragraph", text=text)
    assert done.stdout.decode().split() == text.upper().split()
    assert b"stdin line 8: the translation repeated itself" in done.stderr
    assert b"stdin line 9 has more than 65536 bytes" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("real_weights")
def test_the_end_of_a_long_line_is_translated() -> None:
    done = run("translate", "--strict", text="I have a cat. " * 400 + "The end is blue.\n", program=REAL)
    assert done.stdout.count(b"\n") == 1
    assert done.returncode == 0, done.stderr
    assert re.search("[蓝青]", done.stdout.decode()[-12:])


@pytest.mark.slow
@pytest.mark.usefixtures("real_weights")
def test_words_without_a_full_stop_are_split() -> None:
    words = random.Random(1).choices(["house", "river", "and", "the", "old", "green", "tree", "was", "seen"], k=5000)
    done = run("translate", "--beam", "1", text=" ".join(words) + "\n", program=REAL)
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    assert b"stdin line 1: longer than the model takes at once" in done.stderr


@pytest.mark.slow
def test_a_line_of_100_megabytes_is_split_and_said() -> None:
    line = b"A sentence of some words that goes on and on. " * 2_200_000
    done = subprocess.run(
        [sys.executable, "-c", REPORTING, "translate"],
        input=line,
        capture_output=True,
        env=environment(FAKE_TX="identity"),
        timeout=300,
    )
    *warnings, peak = done.stderr.decode().splitlines()
    assert done.stdout == line
    assert warnings == ["tx: warning: stdin line 1 has more than 65536 bytes; translated in parts"]
    assert int(peak) < 100_000  # KiB, of which Python and its modules are a third


# Runs the program and says on the standard error how much memory it had at most, in KiB.
REPORTING = f"""import runpy, sys
sys.argv[0] = 'tx'
try: runpy.run_path({FAKE[1]!r}, run_name='__main__')
finally:
    status = open('/proc/self/status').read()
    print(status.partition('VmHWM:')[2].split()[0], file=sys.stderr)
"""


def test_the_parts_of_a_long_line_are_split_in_json() -> None:
    done = run("translate", "--json", "-q", text="word " * 20_000 + "\n")
    assert done.stdout.count(b'"flags": ["split"]') == done.stdout.count(b"\n") == 2


@contextlib.contextmanager
def started(*arguments: str, program: Sequence[str] = FAKE, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    process = subprocess.Popen([*program, *arguments], **{**pipes, **more})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def receive(process: subprocess.Popen[bytes], seconds: float = 60) -> bytes:
    assert process.stdout
    assert select.select([process.stdout], [], [], seconds)[0], "nothing came while the pipe was open"
    return os.read(process.stdout.fileno(), 1 << 16)


@pytest.mark.usefixtures("real_weights")
def test_the_first_line_comes_while_the_writer_sleeps() -> None:
    with started("translate", program=REAL) as process:
        assert process.stdin
        process.stdin.write(b"Thank you.\nGood")
        process.stdin.flush()
        assert receive(process).count(b"\n") == 1
        out, err = process.communicate(b" morning.\n", timeout=60)
        assert (process.returncode, out.count(b"\n"), err) == (0, 1, b"")


def test_a_fast_writer_is_answered_in_batches_in_order() -> None:
    text = "".join(f"line {n}\n" for n in range(5000))
    assert run("translate", text=text).stdout.decode() == text.upper()


@pytest.mark.slow
def test_two_hundred_thousand_lines_keep_memory_flat() -> None:
    peaks = []
    for count in (2_000, 200_000):
        code = [sys.executable, "-c", REPORTING, "translate"]
        process = subprocess.Popen(
            code,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(FAKE_TX="identity"),
        )
        out, err = process.communicate("".join(f"{n} I love NLP\n" for n in range(count)).encode(), timeout=300)
        assert out.decode().splitlines() == [f"{n} I love NLP" for n in range(count)]
        peaks.append(int(err))
    assert peaks[1] - peaks[0] < 10_000  # KiB; all of the input would be 4 MB, its lines as Python has them 15


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_point_what_was_printed_is_a_whole_prefix(seed: int) -> None:
    chance = random.Random(seed)
    number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    text = "".join(f"{n} " + "ab" * chance.randrange(60) + "\n" for n in range(200_000)).encode()
    with started("translate", env=environment(FAKE_TX="identity")) as process:
        assert process.stdin
        writer = threading.Thread(target=_write, args=(process.stdin, text))
        writer.start()
        out = receive(process)
        enough = chance.randrange(1 << 20)
        while len(out) < enough:
            out += receive(process)
        process.send_signal(number)
        assert process.stdout and process.stderr
        out += process.stdout.read()
        err = process.stderr.read()
        assert process.wait(30) == 128 + number
        writer.join()
    assert err == b""
    assert text.startswith(out) and out.endswith(b"\n") and len(out) < len(text)


def _write(stream: Any, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.write(data)
        stream.close()


@pytest.mark.slow
@pytest.mark.usefixtures("real_weights")
def test_memory_is_flat_after_many_calls() -> None:
    code = (
        "import resource, tx\n"
        "t = tx.Translator(engine='numpy')\n"
        "peaks = []\n"
        "for n in range(600):\n"
        "    t.translate([f'I have {n} cats.'], beam_size=1)\n"
        "    if n in (200, 599): peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        "print(peaks[1] - peaks[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert int(done.stdout) < 4000, done.stderr  # KiB


# Shell manners


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_head_ends_it_silently(unbuffered: dict[str, str]) -> None:
    script = "yes hi | head -5000 | tx translate | head -1; echo ${PIPESTATUS[2]}"
    done = shell(script, env=environment(**unbuffered))
    assert (done.stdout, done.stderr) == (b"HI\n0\n", b"")


@pytest.mark.usefixtures("real_weights")
def test_head_ends_the_model_silently() -> None:
    done = shell("yes hi | head -5000 | tx translate | head -1 | wc -l; echo ${PIPESTATUS[2]}", program=REAL)
    assert (done.stdout.split(), done.stderr) == ([b"1", b"0"], b"")


@pytest.mark.usefixtures("real_weights")
def test_an_interrupt_while_the_model_works_is_130_and_silent() -> None:
    with started("translate", "--batch-size", "1", program=REAL) as process:
        assert process.stdin
        process.stdin.write(b"Thank you.\n")
        process.stdin.flush()
        assert receive(process).endswith(b"\n")
        process.stdin.write(b"He said that he would come back tomorrow, but nobody believed him at all.\n" * 50)
        process.stdin.flush()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["translate", "--model", "/nope", "hi"], 1),
        (["summarize", "--model", "/nope", "-t", "A text."], 1),
        (["qa", "--model", "/nope", "Who?", "-c", "A text."], 1),
        (["show-attention", "--model", "/nope", "hi"], 1),
        (["models", "info", "/nope"], 1),
        (["translate", "-i", "/nope"], 1),
        (["translate", "-o", "/nope/out", "hi"], 1),
        (["translate", "--to", "xx", "hi"], 2),
        (["translate", "--beam", "many", "hi"], 2),
        (["translate", "-5 degrees"], 2),
        (["transalte", "hi"], 2),
        (["help", "me"], 2),
        (["completion", "csh"], 2),
        (["translate", "--suffix", ".zh", "hi"], 2),
    ],
)
def test_a_failure_is_one_line_and_no_output(arguments: list[str], status: int) -> None:
    done = run(*arguments, program=REAL)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (status, b"", 1)
    assert done.stderr.startswith(b"tx: error: ")


def test_piped_text_is_read_and_an_argument_leaves_it_alone() -> None:
    assert run("translate", text="hello\n").stdout == b"HELLO\n"
    done = shell('printf "a\\nb\\n" | { tx translate hi; cat; }')
    assert done.stdout == b"HI\na\nb\n"


def test_an_idle_open_standard_input_is_not_waited_for() -> None:
    with started("translate", "hi") as process:
        assert receive(process) == b"HI\n"
        assert process.wait(30) == 0


def test_dashes() -> None:
    done = run("translate", "-5 degrees")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b'needs "--" before it: tx translate -- "-5 degrees"' in done.stderr
    assert run("translate", "--", "-5 degrees").stdout == b"-5 DEGREES\n"
    assert run("translate", "-", text="x\n").stdout == b"X\n"
    assert run("translate", "--", "-", text="x\n").stdout == b"X\n"
    assert run("translate", "").stdout == b"\n"  # an empty text is a text


@pytest.mark.parametrize("locale", ["C.UTF-8", "en_US.UTF-8", "C", "POSIX", "en_US.ISO-8859-1"])
def test_bytes_that_are_no_text_are_named(locale: str) -> None:
    env = environment(LC_ALL=locale, PYTHONCOERCECLOCALE="0")
    done = run("translate", text=b"good\ncaf\xe9\n", env=env)
    assert (done.returncode, done.stdout) == (1, b"GOOD\n")
    message = b"tx: error: stdin line 2, byte 4 is not UTF-8 (try --encoding latin-1)\n"
    assert done.stderr == message
    done = run("translate", b"caf\xe9", env=env)  # type: ignore[arg-type]
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == message.replace(b"stdin line 2", b"argument 1 line 1")
    assert run("translate", "--encoding", "latin-1", text=b"caf\xe9\n", env=env).stdout == "CAFÉ\n".encode()


@pytest.mark.parametrize(
    "arguments", [["translate", "hi"], ["--help"], ["translate", "--help"], ["help", "streams"], ["config", "show"]]
)
def test_no_escape_codes_in_a_pipe(arguments: list[str]) -> None:
    done = run(
        *arguments, env=environment(FORCE_COLOR="1", TTY_COMPATIBLE="1", TERM="xterm-256color", CLICOLOR_FORCE="1")
    )
    assert done.returncode == 0 and done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.usefixtures("real_weights")
def test_attention_in_a_file_is_the_same_uncoloured() -> None:
    done = run("show-attention", "I love NLP", program=REAL)
    assert done.returncode == 0 and len(done.stdout.splitlines()) > 3
    assert b"\x1b" not in done.stdout


def test_nothing_moves_in_a_log(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("hello\nlooped\n" * 2000)
    done = run("translate", "-i", str(tmp_path / "big.txt"))
    assert b"\r" not in done.stderr and b"\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 2000
    assert run("translate", "-q", "-i", str(tmp_path / "big.txt")).stderr == b""


@pytest.mark.parametrize("columns", ["20", "40", "80", "500"])
def test_results_are_never_wrapped(columns: str) -> None:
    text = "some words and more of them " * 40
    assert run("translate", text, env=environment(COLUMNS=columns)).stdout == f"{text.upper()}\n".encode()
    help_text = run("translate", "--help", env=environment(COLUMNS=columns)).stdout.decode()
    assert "--no-progress" in help_text and "…" not in help_text


def test_topics_are_as_wide_as_the_terminal() -> None:
    for columns in (40, 80, 100):
        done = run("help", "streams", env=environment(COLUMNS=str(columns)))
        prose = [line for line in done.stdout.decode().splitlines() if not line.startswith(" ")]
        assert columns - 15 < max(map(len, prose)) <= columns


MARKUP = "see [bold] and [/items] and list[str] :smile: https://x/[id] {name} %s"


def test_markup_is_literal_in_texts_and_errors() -> None:
    assert run("translate", MARKUP, env=environment(FAKE_TX="identity")).stdout == f"{MARKUP}\n".encode()
    assert MARKUP.replace("/", "_").encode() in run("translate", "-i", MARKUP.replace("/", "_")).stderr


def test_escapes_in_a_message_cannot_move_the_cursor() -> None:
    done = run("translate", "-i", "no\x1b[31m\nfile\u202e")
    assert b"\x1b" not in done.stderr and "\u202e".encode() not in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.usefixtures("real_weights")
def test_threads_and_batches_say_nothing_on_the_standard_error() -> None:
    done = run("translate", "--threads", "2", "--batch-size", "2", text="Thank you.\nYes.\nNo.\n", program=REAL)
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 3, b"")


def test_a_pager_and_xargs_work() -> None:
    done = shell("printf 'one two\\n' | xargs -n 1 bash -c 'exec \"$0\" \"$@\"' echo | tx translate | head")
    assert done.stdout == b"ONE\nTWO\n"


# Conventions, one test for each that no other file has


def test_results_are_on_stdout_and_everything_else_on_stderr() -> None:
    done = run("translate", "looped")
    assert (done.stdout, done.stderr[:12]) == (b"LOOPED\n", b"tx: warning:")


@pytest.mark.parametrize("flag", ["cut", "looped", "lost", "invented", "untranslated"])
def test_strict_is_three_where_something_may_be_missing(here: Here, flag: str) -> None:
    status, out, err = here("translate", "--strict", text=f"fine\n{flag}\n")
    assert (status, out.count(b"\n"), err.count(b"\n")) == (3, 2, 1)
    assert err.startswith(b"tx: warning: stdin line 2: ")
    assert here("translate", text=f"{flag}\n")[0] == 0
    assert here("translate", "--strict", "-q", text=f"{flag}\n")[2] == b""
    assert f'"flags": ["{flag}"]'.encode() in here("translate", "--json", "-q", flag)[1]


def test_lines_in_the_target_language_are_noted_once_at_the_end() -> None:
    done = run("translate", "--to", "zh", "--strict", text="hello\n你好\n好的\nbye\n")
    assert (done.returncode, done.stdout.decode()) == (0, "HELLO\n你好\n好的\nBYE\n")
    note = "tx: note: left as it is, for it is in the target language (zh): "
    assert done.stderr.decode() == f"{note}2 of 4 lines\n"
    assert run("translate", "--to", "zh", "你好").stderr.decode() == f"{note}the text\n"
    assert run("translate", "--to", "zh", "-q", "你好").stderr == b""


def test_without_arguments_on_a_terminal_it_helps_and_does_not_wait() -> None:
    master, slave = pty.openpty()
    try:
        done = run("translate", stdin=slave)
    finally:
        os.close(master)
        os.close(slave)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"  tx translate ") + done.stderr.count(b"| tx translate ") == 2


def test_a_terminal_that_is_read_says_so_in_one_line() -> None:
    master, slave = pty.openpty()
    with started("translate", "-", stdin=slave) as process:
        os.close(slave)
        os.write(master, b"hello\n")
        assert receive(process) == b"HELLO\n"
        os.write(master, b"\x04")
        out, err = process.communicate(timeout=30)
        os.close(master)
    assert (process.returncode, out, err.count(b"\n")) == (0, b"", 1)
    assert b"Ctrl-D" in err


def test_input_and_output_are_named_alike_everywhere() -> None:
    for command in (["translate"], ["summarize"], ["qa"], ["show-attention"]):
        text = run(*command, "--help").stdout.decode()
        for option in (
            "-o, --output",
            "--json",
            "--model",
            "--encoding",
            "--engine",
            "--threads",
            "--device",
            "--quiet",
        ):
            assert option in text, (command, option)


def test_a_closed_stream_is_no_traceback() -> None:
    assert shell("tx translate hi 2>&-").stdout == b"HI\n"
    assert shell("tx translate looped 2>&-; echo $?").stdout == b"LOOPED\n0\n"
    done = shell("tx translate <&-; echo $?")
    assert done.stdout == b"1\n" and done.stderr.count(b"\n") == 1
    done = shell("tx translate hi >&-; echo $? >&2")
    assert done.stderr.splitlines()[-1] == b"1" and done.stderr.count(b"\n") == 2
    assert shell("tx translate hi <&-").stdout == b"HI\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk() -> None:
    done = shell("yes hi | head -3000 | tx translate > /dev/full; echo ${PIPESTATUS[2]}")
    assert done.stdout == b"1\n"
    assert done.stderr == b"tx: error: cannot write the standard output: No space left on device\n"
    done = shell("tx translate looped 2> /dev/full; echo $?")  # a warning that nobody sees stops nothing
    assert done.stdout == b"LOOPED\n0\n"
    assert shell("tx translate --nope 2> /dev/full; echo $?").stdout == b"2\n"


def test_a_reader_of_the_warnings_that_goes_away_stops_nothing() -> None:
    done = shell("{ yes looped | head -5000 | tx translate 2>&1 >&3 | head -1 >/dev/null; } 3>&1 | wc -l")
    assert done.stdout.split() == [b"5000"]


def test_a_pipe_that_was_left_non_blocking_is_waited_for() -> None:
    receiving, sending = os.pipe()
    os.set_blocking(sending, False)
    for unbuffered in ({}, {"PYTHONUNBUFFERED": "1"}):
        with started("translate", stdout=sending, env=environment(FAKE_TX="identity", **unbuffered)) as process:
            assert process.stdin
            text = b"word " * 10_000 + b"\n"
            writer = threading.Thread(target=_write, args=(process.stdin, text * 4))
            writer.start()
            time.sleep(0.5)  # until the pipe is full
            out = b""
            while len(out) < 4 * len(text):
                assert select.select([receiving], [], [], 30)[0]
                out += os.read(receiving, 1 << 16)
            assert process.wait(30) == 0 and out == text * 4
            writer.join()
    os.close(receiving)
    os.close(sending)


def test_a_folder_or_a_device_as_input() -> None:
    done = shell("tx translate -i /; echo $?")
    assert done.stdout == b"1\n" and done.stderr.count(b"\n") == 1
    assert shell("tx translate < /dev/null; echo $?").stdout == b"0\n"


def test_output_to_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = shell(f"cat '{fifo}' & tx translate -o '{fifo}' hi; wait")
    assert done.stdout == b"HI\n"
    assert stat.S_ISFIFO(fifo.stat().st_mode)


# Several files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{name} text\n")
    return tmp_path


def names(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_suffix_gives_a_file_beside_each(folder: Path) -> None:
    done = run("translate", "-i", "a.txt", "-i", "b.txt", "--suffix", ".zh", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert names(folder) == {"a.txt": "a text\n", "a.zh.txt": "A TEXT\n", "b.txt": "b text\n", "b.zh.txt": "B TEXT\n"}


@pytest.mark.parametrize("output", ["out", "out/", "new/"])
def test_a_folder_gets_a_file_for_each(folder: Path, output: str) -> None:
    (folder / "out").mkdir()
    done = run("translate", "-i", "a.txt", "-i", "b.txt", "-o", output, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")
    assert {path.name: path.read_text() for path in (folder / output).iterdir()} == {
        "a.txt": "A TEXT\n",
        "b.txt": "B TEXT\n",
    }
    assert run("translate", "-i", "a.txt", "-o", output, "--suffix", ".zh", cwd=folder).returncode == 0
    assert (folder / output / "a.zh.txt").read_text() == "A TEXT\n"


def test_one_output_file_takes_all(folder: Path) -> None:
    assert run("translate", "-i", "a.txt", "-i", "b.txt", "-o", "c", cwd=folder).returncode == 0
    assert (folder / "c").read_text() == "A TEXT\nB TEXT\n"


def test_in_place_keeps_mode_and_link(folder: Path) -> None:
    (folder / "a.txt").chmod(0o640)
    (folder / "link").symlink_to("a.txt")
    assert run("translate", "-i", "link", "--in-place", cwd=folder).returncode == 0
    assert (folder / "link").is_symlink()
    assert (folder / "a.txt").read_text() == "A TEXT\n"
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt", "link"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--in-place"],
        ["--in-place", "hi"],
        ["--in-place", "-i", "-"],
        ["--in-place", "-i", "a.txt", "-o", "c"],
        ["--in-place", "-i", "a.txt", "--suffix", ".zh"],
        ["--in-place", "-i", "/dev/null"],
        ["--suffix", ".zh"],
        ["--suffix", ".zh", "-i", "-"],
        ["--suffix", "/x", "-i", "a.txt"],
        ["--suffix", ".zh", "-i", "a.txt", "-o", "c"],
        ["-i", "a.txt", "-o", "."],
        ["-i", "a.txt", "-i", "./a.txt", "-o", "out/"],
        ["-i", "-", "-o", "out/"],
        ["--suffix", "", "-i", "a.txt"],
    ],
)
def test_outputs_that_make_no_sense_are_refused(
    here: Here, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(folder)
    status, out, err = here("translate", *arguments, text="x\n")
    assert (status, out, err.count(b"\n")) == (2, b"", 1)
    assert names(folder) == {"a.txt": "a text\n", "b.txt": "b text\n"}


def test_a_file_that_fails_is_said_and_left_as_it_was(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"fine\n\xff\n")
    files = [word for name in ("a", "bad", "nope", "b") for word in ("-i", f"{name}.txt")]
    done = run("translate", *files, "--in-place", cwd=folder)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 2)
    assert b"bad.txt line 2, byte 1" in done.stderr and b"nope.txt" in done.stderr
    assert (folder / "bad.txt").read_bytes() == b"fine\n\xff\n"
    assert (folder / "a.txt").read_text() + (folder / "b.txt").read_text() == "A TEXT\nB TEXT\n"
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


def test_many_files_need_few_open_ones(folder: Path) -> None:
    files = []
    for n in range(100):
        (folder / f"{n}.txt").write_text("x\n")
        files += ["-i", f"{n}.txt"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))  # noqa: E731
    assert run("translate", *files, "-o", "out/", cwd=folder, preexec_fn=limit).returncode == 0
    assert len(list((folder / "out").iterdir())) == 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_files_before_it_and_no_half_one(folder: Path, number: int) -> None:
    (folder / "b.txt").write_text("done\nsleep\n")
    with started("translate", "-i", "a.txt", "-i", "b.txt", "--in-place", "--batch-size", "1", cwd=folder) as process:
        deadline = time.monotonic() + 30
        while (folder / "a.txt").read_text() != "A TEXT\n" and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (128 + number, b"", b"")
    assert names(folder) == {"a.txt": "A TEXT\n", "b.txt": "done\nsleep\n"}


def test_an_open_descriptor_as_the_output(tmp_path: Path) -> None:
    done = shell(f"cd '{tmp_path}'; (echo one; tx translate hi -o /dev/stdout; echo two) > f; cat f")
    assert (done.stdout, done.stderr, os.listdir(tmp_path)) == (b"one\nHI\ntwo\n", b"", ["f"])
    done = shell("tx translate hi -o /dev/stdout | cat; tx translate ho -o >(cat) | cat")
    assert (done.stdout, done.stderr) == (b"HI\nHO\n", b"")
    done = shell(f"cd '{tmp_path}'; tx translate hi -o /dev/stdout >&-; echo $?")
    assert done.stdout + done.stderr == b"1\ntx: error: cannot write /dev/stdout: Bad file descriptor\n"


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/dev/null"])
def test_what_cannot_be_resumed(here: Here, path: str) -> None:
    status, out, err = here("translate", "--resume", path, text="x\n")
    assert (status, out) == (2, b"") and err.startswith(b"tx: error: --resume needs a file that can be opened again")


@pytest.mark.parametrize("arguments", ["--help", "--version", "translate --help", "config -h", "help translate"])
def test_help_that_no_one_can_see_is_an_error(arguments: str) -> None:
    done = shell(f"tx {arguments} >&-; echo $?")
    assert done.stdout == b"1\n" and done.stderr.startswith(b"tx: error: the standard output is closed")


# What a terminal sees


class Screen:
    """A terminal that is the standard error of a process, and what it has seen. What it waits for it waits for long: a
    machine may be busy."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.seen = b""

    def read(self) -> bool:
        """Whether more came; False at the end."""
        assert select.select([self.master], [], [], 60)[0], f"nothing more came after {self.seen!r}"
        with contextlib.suppress(OSError):  # the last process that had it is gone
            if more := os.read(self.master, 1 << 16):
                self.seen += more
                return True
        return False

    def wait_for(self, *words: bytes) -> None:
        while not all(word in self.seen for word in words):
            assert self.read(), f"{words!r} did not come, only {self.seen!r}"


@contextlib.contextmanager
def on_screen(
    *arguments: str, delay: float = 0.0, stdin: int = subprocess.PIPE, **changes: str
) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """A run whose standard error is a terminal, with the bar after `delay` seconds. In the end its standard input is closed
    and the terminal has seen all."""
    screen = Screen()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100", "FAKE_TX": "identity", "FAKE_TX_DELAY": str(delay)}
    env = environment(**(terminal | changes))
    with started(*arguments, stdin=stdin, stderr=screen.slave, env=env) as process:
        os.close(screen.slave)
        yield process, screen
        assert process.stdout
        if process.stdin:
            process.stdin.close()
        while screen.read():
            pass
        assert process.stdout.read() == b""
        process.wait(60)
    os.close(screen.master)


def say(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Gives it some lines, and waits until they are translated."""
    assert process.stdin
    process.stdin.write(text)
    process.stdin.flush()
    out = b""
    while len(out) < len(text):
        out += receive(process)
    assert out == text


def test_a_bar_shows_itself_and_goes_away() -> None:
    with on_screen("translate") as (process, screen):
        say(process, b"one\n")
        screen.wait_for(b"1 line,")
        say(process, b"looped\n")
        screen.wait_for(b"2 lines", b"a second", b"repeated itself")
    assert process.returncode == 0
    assert screen.seen.index(b"repeated itself") < screen.seen.index(b"2 lines")
    assert screen.seen.rstrip().endswith((b"\x1b[?25h", b"\x1b[2K"))  # the cursor is back, the line empty


def test_the_bar_knows_the_time_left_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n" * 40 + f"wait for {tmp_path / 'go'}\n" + "two\n" * 40)
    with on_screen("translate", "-i", str(tmp_path / "f"), "-o", str(tmp_path / "out")) as (process, screen):
        screen.wait_for(b"left", b"%")
        (tmp_path / "go").touch()
    assert process.returncode == 0


def test_the_bar_is_there_where_the_standard_input_is_a_terminal_that_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f"one\nwait for {tmp_path / 'go'}\n")
    master, slave = pty.openpty()
    with on_screen("translate", "-i", str(tmp_path / "f"), "-o", str(tmp_path / "out"), stdin=slave) as (_, screen):
        screen.wait_for(b"a second")
        (tmp_path / "go").touch()
    os.close(master)
    os.close(slave)


def test_no_bar_among_results(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\nsleep 0.3\n")  # more than a bar needs that has no delay
    with on_screen("translate", "-i", str(tmp_path / "f"), "-o", "/dev/stderr") as (_, screen):
        pass
    assert screen.seen.replace(b"\r", b"") == b"one\nsleep 0.3\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_bar_moves_in_a_document(tmp_path: Path, jobs: str) -> None:
    paragraphs = [f"<p>{'one ' * 5}</p>\n" for _ in range(40)]
    paragraphs[35] = f"<p>wait for {tmp_path / 'go'}</p>\n"
    (tmp_path / "f.html").write_text("".join(paragraphs))
    arguments = ["-i", str(tmp_path / "f.html"), "-o", str(tmp_path / "out"), "--jobs", jobs]
    with on_screen("translate", *arguments) as (process, screen):
        screen.wait_for(b"% 32 lines")
        (tmp_path / "go").touch()
    assert process.returncode == 0
    share = re.search(rb"(\d+)% 32 lines", screen.seen)
    assert share and 60 <= int(share[1]) <= 85


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [(["-q"], {}), (["--no-progress"], {}), ([], {"TERM": "dumb"})],
)
def test_the_bar_can_be_left_away(arguments: list[str], changes: dict[str, str]) -> None:
    with on_screen("translate", *arguments, **changes) as (process, screen):
        say(process, b"one\n")
        time.sleep(0.3)  # more than a bar needs that has no delay
    assert (process.returncode, screen.seen) == (0, b"")


def test_a_short_run_has_no_bar() -> None:
    assert progress.DELAY == 1.0
    with on_screen("translate", delay=60) as (process, screen):
        say(process, b"one\n")
    assert (process.returncode, screen.seen) == (0, b"")


def test_an_interrupt_gives_the_cursor_back() -> None:
    with on_screen("translate") as (process, screen):
        say(process, b"one\n")
        screen.wait_for(b"\x1b[?25l")
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.poll() is None:  # it came just before a read began to wait, where Python does not see it
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert screen.seen.rfind(b"\x1b[?25l") < screen.seen.rfind(b"\x1b[?25h")
    assert b"Traceback" not in screen.seen


# What may be written for a line


def test_scores_stand_before_each_line_and_blank_lines_stay() -> None:
    done = run("translate", "--score", text=" a \n\n \nb")
    assert done.stdout == b"-0.1235\t A \n\n \n-0.1235\tB"


def test_several_translations_of_a_line_come_best_first() -> None:
    done = run("translate", "--n-best", "2", text="one two\n\nx")
    assert done.stdout == b"-0.1235\tONE TWO\n-1.0000\tone two\n\n-0.1235\tX\n-1.0000\tx"
    done = run("translate", "--n-best", "3", "--json", text="one\n\n")
    first, blank = map(json.loads, done.stdout.splitlines())
    assert first["alternatives"] == [
        {"translation": "ONE", "score": -0.1235},
        {"translation": "one", "score": -1.0},
        {"translation": "One", "score": -2.0},
    ]
    assert "alternatives" not in blank


def test_links_of_words_stand_after_each_line() -> None:
    assert run("translate", "--align", text="one two\n\n").stdout == b"ONE TWO\t0-0 1-1\n\n"
    assert run("translate", "--align", "--score", text="one\n").stdout == b"-0.1235\tONE\t0-0\n"
    (record,) = map(json.loads, run("translate", "--align", "--json", text="  one two\n").stdout.splitlines())
    assert record["alignment"] == {
        "source_words": [[2, 5], [6, 9]],
        "output_words": [[2, 5], [6, 9]],
        "links": [[0, 0], [1, 1]],
    }
    assert [record["source"][s:e] for s, e in record["alignment"]["source_words"]] == ["one", "two"]


@pytest.mark.parametrize("options", [("--n-best", "0"), ("--n-best", "65"), ("--n-best", "2", "--align")])
def test_several_that_make_no_sense(here: Here, options: tuple[str, ...]) -> None:
    status, out, err = here("translate", *options, text="x\n")
    assert (status, out, err.count(b"\n")) == (2, b"", 1)


# Documents


def test_a_document_is_one_by_its_ending_or_as_told(tmp_path: Path) -> None:
    page = "<p title='a'>hello <b>you</b></p>\n"
    (tmp_path / "page.html").write_text(page)
    identity = environment(FAKE_TX="identity")
    for arguments, text in ((["-i", "page.html"], ""), (["--format", "html"], page)):
        done = run("translate", *arguments, text=text, cwd=tmp_path, env=identity)
        assert (done.returncode, done.stdout.decode(), done.stderr) == (0, page, b"")
    assert run("translate", "-i", "page.html", "--format", "text", cwd=tmp_path).stdout.decode() == page.upper()
    done = run("translate", "-i", "page.html", "--suffix", ".zh", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "page.zh.html").read_text().startswith("<p title='A'>HELLO")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "word"],
        ["--format", "html", "--json"],
        ["--format", "html", "--n-best", "2"],
        ["--format", "srt", "--paragraph"],
        ["--field", "text"],
        ["--format", "markdown", "--field", "text"],
        ["--format", ""],
        ["--field", "", "--format", "csv"],
    ],
)
def test_formats_that_make_no_sense(here: Here, arguments: list[str]) -> None:
    status, out, err = here("translate", *arguments, text="x\n")
    assert (status, out, err.count(b"\n")) == (2, b"", 1)


def test_fields(tmp_path: Path) -> None:
    rows = "id,text,more\n1,one,a\n2,two,b\n"
    done = run("translate", "--format", "csv", "--field", "text", "--field", "more", text=rows)
    assert done.stdout.decode() == "id,text,more\n1,ONE,A\n2,TWO,B\n"


def test_warnings_of_a_document_name_the_line_and_count_for_strict() -> None:
    text = "# Title\n\nfine\n\nlooped\n"
    done = run("translate", "--format", "markdown", "--strict", text=text)
    assert done.returncode == 3
    assert done.stderr.startswith(b"tx: warning: stdin line 5: the translation repeated itself")
    assert run("translate", "--format", "markdown", "--to", "zh", text="你好\n").stderr.count(b"\n") == 1


def test_a_glossary_reaches_the_translator(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("en\tzh\nword\t词\n")
    arguments = ["translate", "--glossary", "terms.tsv"]
    assert run(*arguments, text="a word\n", cwd=tmp_path).stdout.decode() == "A 词\n"
    assert run(*arguments, "--format", "html", text="<p>a word</p>", cwd=tmp_path).stdout.decode() == "<p>A 词</p>"
    (tmp_path / "terms.tsv").write_text("one\ntwo\n")
    for path in ("terms.tsv", "nope.tsv", "."):
        done = run("translate", "--glossary", path, text="x\n", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)

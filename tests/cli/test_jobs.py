"""`--jobs N`: the same as without, whatever happens to the processes."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tx.cli.jobs import LOOK_AHEAD, Workers
from tx.model.errors import InputError, TxError

from .test_manners import FAKE, REAL, environment, run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc")


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    return False


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def started(*arguments: str, program: Sequence[str] = FAKE, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*program, *arguments], env=environment(), **(pipes | more)) as process:
        try:
            yield process
        finally:
            process.kill()


# The processes themselves


def test_results_come_in_the_order_of_the_tasks() -> None:
    found: list[int] = []
    with Workers(lambda task: time.sleep(task % 3 / 100) or task * task, 3) as workers:
        for n in range(40):
            workers.submit(n, found.append)
        workers.drain()
        assert workers.call(7) == 49
    assert found == [n * n for n in range(40)]


def test_large_messages() -> None:
    text = "x" * 3_000_000
    found: list[str] = []
    with Workers(lambda task: task[::-1], 2) as workers:
        for n in range(6):
            workers.submit(f"{n}{text}", found.append)
        workers.drain()
    assert found == [f"{text}{n}" for n in range(6)]


def test_what_is_done_too_early_is_bounded() -> None:
    reached = []
    with Workers(lambda task: time.sleep(0.3 if task == 0 else 0), 2) as workers:
        for n in range(100):
            workers.submit(n, reached.append)
            assert n - len(reached) < LOOK_AHEAD * 2
        workers.drain()
    assert len(reached) == 100


def test_an_error_comes_after_the_results_before_it() -> None:
    def work(task: int) -> int:
        if task == 5:
            raise InputError("five")
        time.sleep(0.02)
        return task

    found: list[int] = []
    with pytest.raises(InputError, match="^five$") as caught, Workers(work, 4) as workers:
        for n in range(12):
            workers.submit(n, found.append)
        workers.drain()
    assert found == [0, 1, 2, 3, 4]
    assert "in work" in str(caught.value.__cause__)  # where it came from


def test_an_error_that_cannot_be_sent_is_told() -> None:
    class Odd(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("odd")

    def work(task: int) -> None:
        raise Odd(1, 2)

    with pytest.raises(TxError, match="Odd: odd"), Workers(work, 1) as workers:
        workers.call(0)


@pytest.mark.parametrize("at_work", [True, False])
def test_a_process_that_is_killed(at_work: bool) -> None:
    found: list[int] = []
    with (
        pytest.raises(TxError, match=r"one of the 2 processes was killed.*memory.*--jobs"),
        Workers(lambda task: os.kill(os.getpid(), signal.SIGKILL) if task == 3 and at_work else task, 2) as workers,
    ):
        if not at_work:
            kill([worker.pid for worker in workers._workers])
        for n in range(8):
            workers.submit(n, found.append)
        workers.drain()
    assert found == ([0, 1, 2] if at_work else [])


def kill(pids: Sequence[int]) -> None:
    """Kills processes, and waits until they are dead, but leaves it to their parent to learn that."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_an_idle_process_that_is_killed_is_not_missed() -> None:
    found: list[int] = []
    with Workers(lambda task: time.sleep(0.01) or task, 3) as workers:
        workers.submit(0, found.append)
        workers.drain()
        kill([worker.pid for worker in workers._workers[:2]])
        for n in range(1, 12):
            workers.submit(n, found.append)
        workers.drain()
        kill([worker.pid for worker in workers._workers])
        assert len(workers._workers) == 1
        with pytest.raises(TxError, match=r"one of the 3 processes was killed \(signal 9\)"):
            workers.submit(12, found.append)
    assert found == list(range(12))


@pytest.mark.parametrize("late", [True, False])
def test_a_process_that_cannot_begin_says_why(late: bool) -> None:
    def begin() -> None:
        time.sleep(0.1 if late else 0)
        raise InputError("no room for it")

    with pytest.raises(InputError, match="^no room for it$"), Workers(abs, 2, begin) as workers:
        if not late:
            for worker in workers._workers:
                os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        for n in range(4):
            workers.submit(n, print)
        workers.drain()


@linux
def test_no_process_is_left() -> None:
    before = children(os.getpid())
    with contextlib.suppress(ZeroDivisionError), Workers(time.sleep, 3) as workers:
        workers.submit(60, print)
        started = set(children(os.getpid())) - set(before)
        assert len(started) == 3
        raise ZeroDivisionError
    assert not started & set(children(os.getpid()))


# The command


def lines(count: int, seed: int = 1) -> str:
    chosen = random.Random(seed)
    words = ["one", "two", "cut", "looped", "好", "split", "three", "", "  ", "lost"]
    return "".join(f"{chosen.choice(words)} {n if chosen.random() < 0.9 else ''}".rstrip() + "\n" for n in range(count))


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--to", "zh", "--strict"),
        ("--json", "--batch-size", "3"),
        ("--score", "-q"),
        ("--n-best", "2"),
        ("--paragraph",),
        ("--align",),
        ("--encoding", "utf-16"),
    ],
)
def test_the_same_as_without(options: tuple[str, ...]) -> None:
    text = lines(900).encode("utf-16" if "utf-16" in options else "utf-8")
    alone, shared = (run("translate", *options, *jobs, text=text) for jobs in ((), ("--jobs", "3")))
    assert shared.stdout == alone.stdout and len(alone.stdout) > 5000
    assert (shared.returncode, shared.stderr) == (alone.returncode, alone.stderr)
    assert alone.returncode == (3 if "--strict" in options else 0)


def test_files_and_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(lines(300) + "no end")
    (tmp_path / "b.txt").write_text(lines(300, 2))
    (tmp_path / "c.html").write_text("".join(f"<p>Word <b>number</b> {n}</p>\n" for n in range(700)))
    files = [option for name in ("a.txt", "c.html", "b.txt") for option in ("-i", str(tmp_path / name))]
    alone, shared = (run("translate", *files, *jobs) for jobs in ((), ("--jobs", "2")))
    assert shared.stdout == alone.stdout and b"NO END\n<p>WORD" in alone.stdout
    assert (shared.returncode, shared.stderr) == (alone.returncode, alone.stderr) == (0, alone.stderr)
    many = run("translate", *files, "-i", str(tmp_path / "nope.txt"), "-o", f"{tmp_path}/out/", "--jobs", "2")
    assert many.returncode == 1 and many.stderr.count(b"error") == 1
    assert b"".join((tmp_path / "out" / n).read_bytes() for n in ("a.txt", "c.html", "b.txt")) == alone.stdout.replace(
        b"NO END\n", b"NO END"
    )


@pytest.mark.parametrize("bad", ["boom", "caf\xe9"])
def test_an_error_in_the_middle(bad: str) -> None:
    text = (lines(500) + f"{bad}\n" + lines(500)).encode("latin-1", "replace")
    alone, shared = (run("translate", *jobs, text=text) for jobs in ((), ("--jobs", "4")))
    assert (shared.returncode, shared.stdout, shared.stderr) == (1, alone.stdout, alone.stderr)
    assert shared.stderr.splitlines()[-1].startswith(b"tx: error: ")


def test_an_error_of_a_process_shows_where_it_came_from() -> None:
    done = run("translate", "--jobs", "2", "--debug", text="a\nboom\n")
    assert done.returncode == 1 and b"WorkerTraceback" in done.stderr and b"fake_tx.py" in done.stderr


def test_a_slow_writer_is_answered_line_by_line() -> None:
    with started("translate", "--jobs", "2") as process:
        assert process.stdin and process.stdout
        for text in (b"one", b"two\nthr", b"ee", b"\nfour"):
            process.stdin.write(text + (b"\n" if text == b"one" else b""))
            process.stdin.flush()
            for expected in {b"one": [b"ONE\n"], b"two\nthr": [b"TWO\n"], b"\nfour": [b"THREE\n"]}.get(text, []):
                assert select.select([process.stdout], [], [], 20)[0]
                assert process.stdout.readline() == expected
        process.stdin.close()
        assert process.stdout.read() == b"FOUR"
        assert process.wait(20) == 0


def test_results_do_not_wait_for_half_a_line() -> None:
    with started("translate", "--jobs", "2") as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"sleep0.3\nhalf a l")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 20)[0]
        assert process.stdout.readline() == b"SLEEP0.3\n"


@linux
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: signal.Signals, status: int) -> None:
    with started("translate", "--jobs", "3") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"one\ntwo\n" * 4 + b"sleep60\n" * 100)
        process.stdin.flush()
        got = b"".join(process.stdout.readline() for _ in range(8))
        workers = children(process.pid)
        assert len(workers) == 3
        process.send_signal(number)
        assert process.wait(20) == status
        assert (got + process.stdout.read(), process.stderr.read()) == (b"ONE\nTWO\n" * 4, b"")
        wait_until(lambda: not any(map(is_alive, workers)))


@linux
def test_ctrl_c_reaches_the_whole_group() -> None:
    with started("translate", "--jobs", "2", start_new_session=True) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"one\n" * 8 + b"sleep60\n" * 50)
        process.stdin.flush()
        got = process.stdout.readline()
        workers = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
        assert (got + process.stdout.read(), process.stderr.read()) == (b"ONE\n" * 8, b"")
        wait_until(lambda: not any(map(is_alive, workers)))


@linux
def test_a_killed_process_ends_the_run() -> None:
    with started("translate", "--jobs", "2") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"one\n" * 8 + b"sleep60\n" * 40)
        process.stdin.flush()
        assert process.stdout.readline() == b"ONE\n"
        os.kill(children(process.pid)[-1], signal.SIGKILL)
        os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.wait(20) == 1
        assert process.stdout.read() == b"ONE\n" * 7
        error = process.stderr.read()
        assert error.startswith(b"tx: error: one of the 2 processes was killed (signal 9)") and error.count(b"\n") == 1


@linux
def test_processes_end_with_the_one_that_started_them() -> None:
    with started("translate", "--jobs", "2") as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"one\n" * 8 + b"sleep0.5\n")
        process.stdin.flush()
        process.stdout.readline()
        workers = children(process.pid)
        process.kill()
        process.wait()
        process.stdin.close()
        wait_until(lambda: not any(map(is_alive, workers)))


def test_a_reader_that_has_seen_enough() -> None:
    script = f"yes one | {' '.join(FAKE)} translate --jobs 2 | head -3; echo ${{PIPESTATUS[1]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment(), timeout=60)
    assert (done.stdout, done.stderr) == (b"ONE\nONE\nONE\n0\n", b"")


def test_the_number_of_processes() -> None:
    for wrong in ("-1", "x", "1000", ""):
        done = run("translate", "--jobs", wrong, text="a\n")
        assert done.returncode == 2 and done.stderr.startswith(b"tx: error: --jobs") and not done.stdout
    assert run("translate", "--jobs", "auto", text="a\n").stdout == b"A\n"
    assert run("translate", "--jobs", "0", text="a\n").stdout == b"A\n"
    done = run("translate", "--jobs", "2", "--device", "cuda", text="a\n", program=REAL)
    assert (done.returncode, done.stdout) == (2, b"") and b"--jobs" in done.stderr


def test_where_nothing_can_be_forked(fake_pipeline: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from tx.cli import main

    monkeypatch.delattr(os, "fork")
    assert main.main(["translate", "--jobs", "2", "hi"]) == 2
    assert "--jobs needs a system that can fork" in capsys.readouterr().err


# With a model


@pytest.mark.parametrize("engine", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_model_gives_the_same(small_model: Path, engine: str) -> None:
    text = "".join(f"the bridge {'abcdefghij'[n % 10] * (n % 7)} Anna {n}\n" for n in range(30))
    arguments = ["translate", "--model", str(small_model), "--to", "zh", "--engine", engine, "--beam", "1"]
    alone, shared = (run(*arguments, *jobs, text=text, program=REAL) for jobs in ((), ("--jobs", "2")))
    assert (shared.returncode, shared.stdout, shared.stderr) == (0, alone.stdout, alone.stderr)
    assert shared.stdout.count(b"\n") == 30


@linux
@pytest.mark.parametrize("engine", ["numpy", pytest.param("torch", marks=pytest.mark.slow)])
def test_there_is_one_copy_of_the_weights(real_weights: Path, engine: str) -> None:
    """Private pages of a worker, which nobody else has: far less than the weights in float32."""
    size = 2 * (real_weights / "model.safetensors").stat().st_size
    with started("translate", "--jobs", "2", "--engine", engine, "--beam", "1", program=REAL) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"Good morning.\n" + b"How are you?\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.write(b"The old bridge.\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.readline()
        private = []
        for pid in children(process.pid):
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            sizes = {row.split(":")[0]: 1024 * int(row.split()[1]) for row in rows}
            private.append(sizes["Private_Dirty"] + sizes["Private_Clean"])
            assert sizes["Rss"] > size / 2  # but the weights are there
    assert len(private) == 2 and max(private) < size / 2, (private, size)

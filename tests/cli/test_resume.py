"""`--resume OUT`: killed at any point and started again, the same as in one go."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tx.cli.lines import Report
from tx.cli.resume import Resumable, digest_of
from tx.cli.text_io import Line
from tx.model.errors import TxError

from .test_jobs import lines, started
from .test_manners import FAKE, REAL, run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir() if path.name.startswith(out.name))


def side(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out.parent / f"{out.name}.resume").read_text())
    return found


def kill_when_further(
    out: Path, arguments: Sequence[str], data: bytes, chance: random.Random, program: Sequence[str]
) -> int:
    """Kills a run at some moment after it has done more than the one before; how many lines were done then."""
    file = out.parent / f"{out.name}.resume"
    before = side(out)["lines"] if file.exists() else -1
    with started(*arguments, "--resume", str(out), program=program, stdout=None, stderr=None) as process:
        assert process.stdin
        process.stdin.write(data)
        process.stdin.close()
        end = time.monotonic() + 60
        while not (file.exists() and side(out)["lines"] > before) and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.003)
        time.sleep(chance.random() / 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return int(side(out)["lines"]) if file.exists() else 0


def slow_lines(count: int, seed: int) -> bytes:
    chosen = random.Random(seed)
    return "".join(
        ("sleep0.004" if chosen.random() < 0.4 else chosen.choice(["one", "cut", "", "好"]) + f" {n}") + "\n"
        for n in range(count)
    ).encode()


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (1, ("--to", "zh", "--strict")),
        (2, ("--json", "--jobs", "2")),
        pytest.param(3, ("--paragraph",), marks=pytest.mark.slow),
        pytest.param(4, ("--n-best", "2", "--score"), marks=pytest.mark.slow),
    ],
)
def test_killed_again_and_again(out: Path, seed: int, options: tuple[str, ...]) -> None:
    chance, data = random.Random(seed), slow_lines(600, seed)
    whole = run("translate", *options, text=data)
    done = [kill_when_further(out, ["translate", *options], data, chance, FAKE) for _ in range(3)]
    assert 0 < done[1] < done[-1]  # it goes on, rather than beginning again
    assert not out.exists()
    last = run("translate", *options, "--resume", str(out), text=data)
    assert (last.returncode, last.stdout) == (whole.returncode, b"")
    assert out.read_bytes() == whole.stdout
    assert beside(out) == ["out.txt"]
    notes = [line for line in whole.stderr.splitlines() if b"note" in line]
    assert [line for line in last.stderr.splitlines() if b"note" in line] == notes  # they are about all lines


def test_with_a_model(small_model: Path, out: Path) -> None:
    text = "".join(f"the bridge {'abcdefghij'[n % 10] * (n % 7)} Anna\n" for n in range(40)).encode()
    arguments = ["translate", "--model", str(small_model), "--to", "zh", "--beam", "1"]
    whole = run(*arguments, text=text, program=REAL)
    assert 0 <= kill_when_further(out, arguments, text, random.Random(1), REAL) <= 40
    last = run(*arguments, "--resume", str(out), text=text, program=REAL)
    assert last.returncode == 0 and out.read_bytes() == whole.stdout


def interrupted(out: Path, text: str = "one\ntwo\nboom\nfour\n", *options: str) -> None:
    """Leaves a run behind that ended at the word boom; one, two are done, for a batch of its own has been made of them."""
    with started("translate", *options, "--resume", str(out)) as process:
        assert process.stdin
        first, rest = text.split("boom")
        process.stdin.write(first.encode())
        process.stdin.flush()
        end = time.monotonic() + 20
        part = Path(f"{out}.part")
        while not part.exists() or part.read_bytes().count(b"\n") < first.count("\n"):
            assert time.monotonic() < end
            time.sleep(0.01)
        process.stdin.write(b"boom" + rest.encode())
        process.stdin.close()
        assert process.wait(20) == 1
    assert beside(out) == ["out.txt.part", "out.txt.resume"]


def resumed(out: Path, text: str | bytes, *options: str) -> tuple[int, str]:
    done = run("translate", *options, "--resume", str(out), text=text)
    assert not done.stdout
    return done.returncode, done.stderr.decode()


def test_an_error_is_no_end(out: Path) -> None:
    interrupted(out)
    assert resumed(out, "one\ntwo\nthree\nfour") == (0, "")  # what comes later may have been mended
    assert out.read_text() == "ONE\nTWO\nTHREE\nFOUR"


def test_a_torn_line_is_cut_back(out: Path) -> None:
    interrupted(out)
    with open(f"{out}.part", "ab") as part:
        part.write(b"THR")
    assert resumed(out, "one\ntwo\nthree\n") == (0, "")
    assert out.read_text() == "ONE\nTWO\nTHREE\n"


def test_several_files_one_without_an_end(out: Path, tmp_path: Path) -> None:
    for name, text in (("a", "one\ntwo"), ("b", "three\n"), ("c", "boom\n")):
        (tmp_path / name).write_text(text)
    files = [option for name in "abc" for option in ("-i", str(tmp_path / name))]
    assert run("translate", *files, "--resume", str(out)).returncode == 1
    assert Path(f"{out}.part").read_text() == "ONE\nTWO\nTHREE\n"
    (tmp_path / "c").write_text("four\n")
    assert run("translate", *files, "--resume", str(out)).returncode == 0
    assert out.read_text() == "ONE\nTWO\nTHREE\nFOUR\n"


def test_stopped_between_two_files(out: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("boom")
    files = ["-i", str(tmp_path / "a"), "-i", str(tmp_path / "b")]
    assert run("translate", *files, "--resume", str(out)).returncode == 1
    assert Path(f"{out}.part").read_text() == "ONE"
    (tmp_path / "b").write_text("two")
    assert run("translate", *files, "--resume", str(out)).returncode == 0
    assert out.read_text() == "ONE\nTWO"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("one\nTOO\nthree\n", (), "the first 2 lines of the input are not as they were"),
        ("one\n", (), "the input ends before the 2 lines that are done already"),
        ("one\ntwo\nthree\n", ("--json",), "was begun with --json = false, not true"),
        ("one\ntwo\nthree\n", ("--beam", "1"), "was begun with --beam = the default, not 1"),
        ("one\ntwo\nthree\n", ("--from", "en"), 'was begun with --from = the default, not "en"'),
    ],
)
def test_nothing_is_mixed(out: Path, text: str, options: tuple[str, ...], said: str) -> None:
    interrupted(out)
    before = Path(f"{out}.part").read_bytes(), Path(f"{out}.resume").read_bytes()
    status, error = resumed(out, text, *options)
    assert status == 1 and said in error and error.count("\n") == 1 and "begin again" in error
    assert (Path(f"{out}.part").read_bytes(), Path(f"{out}.resume").read_bytes()) == before
    assert resumed(out, "one\ntwo\nthree\n", "--batch-size", "3", "-q", "--jobs", "2") == (
        0,
        "",
    )  # these change no text
    assert out.read_text() == "ONE\nTWO\nTHREE\n"


def test_another_glossary(out: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("one\t1\n")
    interrupted(out, "one\ntwo\nboom\n", "--glossary", str(terms))
    terms.write_text("one\t一\n")
    status, error = resumed(out, "one\ntwo\nthree\n", "--glossary", str(terms))
    assert status == 1 and "was begun with another glossary" in error


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda out: out.write_text("mine"), "is there already"),
        (lambda out: Path(f"{out}.resume").unlink(), "is there without out.txt.resume"),
        (lambda out: Path(f"{out}.resume").write_text("{"), "is damaged"),
        (lambda out: Path(f"{out}.resume").write_text("[]"), "is damaged"),
        (lambda out: Path(f"{out}.resume").write_text(json.dumps(side(out) | {"lines": "2"})), "is damaged"),
        (lambda out: Path(f"{out}.part").write_text("ONE\nTOO\n"), "is not as the interrupted run left it"),
        (lambda out: Path(f"{out}.part").write_text("ONE\n"), "is not as the interrupted run left it"),
        (lambda out: Path(f"{out}.part").unlink(), "is not as the interrupted run left it"),
    ],
)
def test_what_is_not_ours_is_left_alone(out: Path, change: Any, said: str) -> None:
    interrupted(out)
    change(out)
    status, error = resumed(out, "one\ntwo\nthree\n")
    assert status == 1 and said in error and error.count("\n") == 1


@pytest.mark.parametrize("done", ["", "one\ntwo\n"])
@pytest.mark.parametrize("mine", ["MY OWN DATA\n", "ONE\nTOO\n"])
def test_a_file_of_the_users_is_not_taken_over(out: Path, done: str, mine: str) -> None:
    interrupted(out, f"{done}boom")
    Path(f"{out}.part").unlink()
    out.write_text(mine)
    status, error = resumed(out, "one\ntwo\nthree\n")
    assert status == 1 and "is there already" in error and error.count("\n") == 1
    assert out.read_text() == mine and beside(out) == ["out.txt", "out.txt.resume"]


def test_what_another_run_finished_stays(out: Path) -> None:
    interrupted(out, "one\ntwo\nboom")
    Path(f"{out}.part").rename(out)
    status, error = resumed(out, "one\ntwo\n", "--beam", "1")
    assert status == 1 and "is there already" in error
    assert out.read_text() == "ONE\nTWO\n" and beside(out) == ["out.txt", "out.txt.resume"]


@pytest.mark.parametrize("options", [("--shortlist",), ("--precision", "int8"), ("--precision", "auto")])
def test_the_batch_may_matter_to_the_text(out: Path, options: tuple[str, ...]) -> None:
    interrupted(out, "one\ntwo\nboom", "--batch-size", "3", *options)
    for other, said in (
        (("--batch-size", "4"), "was begun with --batch-size = 3, not 4"),
        (("--batch-size", "3", "--max-memory", "1G"), "was begun with --max-memory = the default, not 1073741824"),
    ):
        status, error = resumed(out, "one\ntwo\n", *options, *other)
        assert status == 1 and said in error
    assert resumed(out, "one\ntwo\n", "--batch-size", "3", *options) == (0, "")


def test_a_finished_file_is_not_overwritten(out: Path) -> None:
    assert resumed(out, "one\n") == (0, "")
    status, error = resumed(out, "one\n")
    assert status == 1 and "is there already" in error and out.read_text() == "ONE\n"


def test_killed_when_all_was_done_but_to_tidy_up(out: Path) -> None:
    interrupted(out, "one\ntwo\nboom")
    Path(f"{out}.part").rename(out)
    assert resumed(out, "one\ntwo\n") == (0, "")
    assert out.read_text() == "ONE\nTWO\n" and beside(out) == ["out.txt"]


def test_killed_before_anything_was_done(out: Path) -> None:
    interrupted(out, "boom")
    assert resumed(out, "one\n") == (0, "") and out.read_text() == "ONE\n"
    out.unlink()
    interrupted(out, "boom")
    Path(f"{out}.part").unlink()
    assert resumed(out, "one\n") == (0, "") and out.read_text() == "ONE\n"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")
def test_two_at_once(out: Path) -> None:
    with started("translate", "--resume", str(out)) as process:
        assert process.stdin
        end = time.monotonic() + 20
        while not Path(f"{out}.part").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.05)
        status, error = resumed(out, "one\n")
        assert status == 1 and "another run is writing" in error
        process.stdin.write(b"one\n")
        process.stdin.close()
        assert process.wait(20) == 0
    assert out.read_text() == "ONE\n"


@pytest.mark.parametrize("more", [("-o", "x"), ("--suffix", ".zh", "-i", "README.md"), ("-i", "README.md")])
def test_what_does_not_go_together(out: Path, more: tuple[str, ...]) -> None:
    done = run("translate", "--resume", str(out), *more)
    assert done.returncode == 2 and b"--resume" in done.stderr and not beside(out)


def test_a_folder_and_the_standard_output_are_no_file(tmp_path: Path) -> None:
    for place in ("-", str(tmp_path), ""):
        assert run("translate", "--resume", place, text="a\n").returncode == 2


def test_the_exit_status_counts_all_lines(out: Path) -> None:
    interrupted(out, "one cut\ntwo\nboom", "--strict")
    assert resumed(out, "one cut\ntwo\nthree\n", "--strict")[0] == 3


def test_an_interrupt_in_the_middle_of_noting_does_no_harm(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results were written, but that they are there was not: they are made again."""
    report = Report(quiet=True)
    first, second = Line("stdin line 1", "a", "\n"), Line("stdin line 2", "b", "\n")
    with pytest.raises(KeyboardInterrupt), Resumable(str(out), {}) as output:
        output.write("A\n")
        output.wrote([first], "A\n", report)
        output.write("B\n")
        monkeypatch.setattr(report, "state", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            output.wrote([second], "B\n", report)
        raise KeyboardInterrupt
    with Resumable(str(out), {}) as output:
        assert output.left([first, second]) == [second]
        output.write("C\n")
    assert out.read_text() == "A\nC\n"


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    before = digest_of(tmp_path)
    (tmp_path / "a").write_bytes(b"two")
    foreign = digest_of(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"{}")
    ours = digest_of(tmp_path)
    (tmp_path / "README.md").write_bytes(b"a card, which anyone may edit")
    assert len({before, foreign, ours}) == 3 and digest_of(tmp_path) == ours


def test_a_full_disk_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(TxError, match="cannot write .*No space"), Resumable(str(out), {}) as output:
        monkeypatch.setattr("os.fsync", full)
        output.write("A\n")
        output.wrote([Line("stdin line 1", "a", "\n")], "A\n", Report(quiet=True))


def test_the_lines_of_a_pipe_may_come_in_other_batches(out: Path) -> None:
    text = lines(300)
    interrupted(out, text + "boom")
    done = run("translate", "--resume", str(out), text=text + "end\n")
    assert done.returncode == 0
    assert out.read_bytes() == run("translate", text=text + "end\n").stdout

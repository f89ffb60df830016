"""`--resume OUT`: a run that can be killed at any moment, and goes on where it was when it is started again.

Beside OUT stand, until it is complete, OUT.part with the results and OUT.resume, a JSON object that says how far they go:

    settings        what the text of the results depends on; the model among them, by a sha256 of its files
    lines           how many lines (with --paragraph: paragraphs) of the input are done
    input_sha256    of those
    output_bytes    how much of OUT.part belongs to them; what follows is the beginning of a result, and is cut off
    output_sha256   of that much
    report          what is to be said of the lines at the end

It is written after the results are on the disk, and replaced by renaming, so it is never ahead of them and always whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from .. import __version__
from ..model.errors import TxError
from .text_io import Line, Output

if TYPE_CHECKING:
    from .lines import Report

PATIENCE = 20  # times as long as it takes to write down how far we are, until that is done again
BLOCK = 1 << 20


class Resumable(Output):
    """The file OUT. Use as a context manager, like any Output. Raises TxError where OUT or what is beside it is not of an
    interrupted run with these `settings`; what is there stays then."""

    def __init__(self, path: str, settings: Mapping[str, Any]) -> None:
        self.name, self.ended = path, True
        self._out = Path(os.path.realpath(path))
        self._part = self._out.with_name(self._out.name + ".part")
        self._side = self._out.with_name(self._out.name + ".resume")
        self._state: dict[str, Any] = {
            "settings": {"tx": __version__, **settings},
            "lines": 0,
            "output_bytes": 0,
            "report": {},
        }
        self._input, self._output = hashlib.sha256(), hashlib.sha256()
        self._state |= {"input_sha256": self._input.hexdigest(), "output_sha256": self._output.hexdigest()}
        self._next = 0.0  # when to write down how far we are
        try:
            self._stream = self._open()
        except OSError as error:
            raise TxError(f"cannot write {path}: {error.strerror or error}") from None
        self._skip = self._state["lines"]  # lines of the input that are still to be passed over

    @property
    def report(self) -> dict[str, Any]:
        """What was to be said of the lines that are done."""
        found: dict[str, Any] = self._state["report"]
        return found

    def left(self, lines: list[Line]) -> list[Line]:
        """Of the next lines of the input those that are not done yet. Raises TxError if the others are not as they were."""
        done, rest = lines[: self._skip], lines[self._skip :]
        if done:
            self._skip -= len(done)
            _add(self._input, done)
            if not self._skip and self._input.hexdigest() != self._state["input_sha256"]:
                raise TxError(
                    f"the first {self._state['lines']} lines of the input are not as they were; {self._begin_again}"
                )
        return rest

    def wrote(self, lines: Sequence[Line], text: str, report: Report) -> None:
        """Notes that `text`, which was written, are the results of these lines, and what is to be said of all so far."""
        content = text.encode()
        _add(self._input, lines)
        self._output.update(content)
        self._state = {  # at once: an interrupt must not find a half of it
            **self._state,
            "lines": self._state["lines"] + len(lines),
            "input_sha256": self._input.hexdigest(),
            "output_bytes": self._state["output_bytes"] + len(content),
            "output_sha256": self._output.hexdigest(),
            "report": report.state(),
        }
        now = time.monotonic()
        if now >= self._next:
            try:
                self._save()
            except OSError as error:
                raise TxError(f"cannot write {self._side}: {error.strerror or error}") from None
            after = time.monotonic()
            self._next = after + PATIENCE * (after - now)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._skip:
                done = self._state["lines"]
                raise TxError(f"the input ends before the {done} lines that are done already; {self._begin_again}")
            self._save()
            if kind is None:
                os.replace(self._part, self._out)
                self._side.unlink()
        except OSError as error:
            if kind is None:
                raise TxError(f"cannot write {self.name}: {error.strerror or error}") from None
        finally:
            with contextlib.suppress(OSError):
                self._stream.close()

    @property
    def _begin_again(self) -> str:
        return f"remove {self._part} and {self._side.name} to begin again"

    def _open(self) -> BinaryIO:
        """OUT.part, cut to what is known to be done."""
        begun = self._side.exists()
        if begun and not self._part.exists() and self._out.is_file():
            self._take_back()
        if self._out.exists():
            said = f"and no {self._side.name} says that a run was interrupted" if not begun else "of another run"
            raise TxError(f"{self.name} is there already, {said}: remove it, or name another file")
        if not begun:
            if self._part.exists():
                raise TxError(f"{self._part} is there without {self._side.name}, so it cannot be resumed: remove it")
            self._write_side()
        stream = open(self._part, "r+b" if self._part.exists() else "x+b")  # noqa: SIM115 - see __exit__
        try:
            self._lock(stream, self._part)
            self._check(self._read_side())
            for block in _blocks(stream, self._state["output_bytes"]):
                self._output.update(block)
                self.ended = block.endswith(b"\n")
            if self._output.hexdigest() != self._state["output_sha256"]:
                raise TxError(f"{self._part} is not as the interrupted run left it; {self._begin_again}")
            stream.truncate(stream.tell())
        except BaseException:
            stream.close()
            raise
        return stream

    def _take_back(self) -> None:
        """Makes OUT our OUT.part again if it is what a run with these settings left that was killed when all was done but to
        remove OUT.resume. Any other file stays."""
        state = self._read_side()
        size = state["output_bytes"]
        if self._out.stat().st_size != size or state["settings"] != self._state["settings"]:
            return
        with open(self._out, "r+b") as stream:
            self._lock(stream, self._out)
            digest = hashlib.sha256()
            for block in _blocks(stream, size):
                digest.update(block)
            if digest.hexdigest() == state["output_sha256"]:
                os.replace(self._out, self._part)

    def _lock(self, stream: BinaryIO, path: Path) -> None:
        """Raises TxError if another run writes here, where `stream` was opened. The lock ends with this process, however that
        ends, or where the file is closed."""
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise TxError(f"another run is writing {path}") from None
        except OSError:  # a file system without locks
            return
        if not path.exists() or not os.path.samestat(os.fstat(stream.fileno()), path.stat()):
            raise TxError(f"another run has just finished {self.name}")

    def _read_side(self) -> dict[str, Any]:
        try:
            state = json.loads(self._side.read_bytes())
            kinds = {name: type(value) for name, value in self._state.items()}
            if {name: type(value) for name, value in state.items()} != kinds:
                raise ValueError
            found: dict[str, Any] = state
            return found
        except (ValueError, AttributeError):
            raise TxError(f"{self._side} is damaged; {self._begin_again}") from None

    def _check(self, state: dict[str, Any]) -> None:
        """Makes the state of the interrupted run ours. Raises TxError if its settings were others."""
        before, now = state["settings"], self._state["settings"]
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                what = f"another {name}"
                if name not in ("model", "glossary"):
                    what = f"{name} = {_shown(before.get(name))}, not {_shown(now.get(name))}"
                raise TxError(f"{self._part} was begun with {what}: run it as before; or {self._begin_again}")
        self._state = state

    def _save(self) -> None:
        os.fsync(self._stream.fileno())
        self._write_side()

    def _write_side(self) -> None:
        new = self._side.with_name(self._side.name + ".new")
        with open(new, "wb") as stream:
            stream.write(json.dumps(self._state).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, self._side)


def digest_of(model: Path) -> str:
    """A sha256 of a model: of its manifest, which has those of its files, or where there is none of all files in its
    folder."""
    manifest = model / "manifest.json"
    files = [manifest] if manifest.is_file() else [model]
    if model.is_dir() and files == [model]:
        files = sorted(path for path in model.iterdir() if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\n".encode())
        with path.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _add(digest: Any, lines: Sequence[Line]) -> None:
    for line in lines:
        digest.update(f"{len(line.text)} {line.text}{line.end}".encode("utf-8", "surrogatepass"))


def _blocks(stream: BinaryIO, size: int) -> Any:
    while size > 0 and (block := stream.read(min(size, BLOCK))):
        size -= len(block)
        yield block


def _shown(value: Any) -> str:
    return "the default" if value is None else json.dumps(value)

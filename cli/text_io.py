"""Text in and text out: arguments, files and pipes to lines; results to UTF-8; messages to the standard error.

Standard library only. Everything is read as bytes and decoded here, so that the same input gives the same result or
the same message under every locale. Only "\\n" ends a line; a "\\r" before it belongs to the ending.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..model.errors import InputError, TxError, UsageError

DEVICES = ("cpu", "cuda", "auto")
ENGINES = ("auto", "numpy", "torch")
CHUNK_BYTES = 65536
FIRST_BATCH = 8  # lines; each full batch after it may be twice as long
BYTE_ORDER_MARK = "\ufeff"


class ExitStatus(IntEnum):
    """What `tx` tells the shell. Every help text lists these."""

    OK = 0
    FAILED = 1  # nothing more could be done; one line on the standard error says why
    USAGE = 2  # the command line made no sense
    INCOMPLETE = 3  # done, but under --strict something was cut or looped
    INTERRUPTED = 130  # Ctrl-C
    TERMINATED = 143  # asked to end, by kill or timeout


class Line(NamedTuple):
    """One line of input. `text + end` is the line as it was read, decoded; `end` is "\\n", "\\r\\n", "\\r" or ""."""

    place: str  # for messages: "stdin line 7"
    text: str
    end: str


def one_line(message: str) -> str:
    """`message` on one line, with control characters, which could move the cursor of a terminal, escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.splitlines()))


def complain(message: str, kind: str = "error") -> None:
    """Prints `tx: error: message` (or another kind) on the standard error as exactly one line."""
    if sys.stderr is not None:
        print(f"tx: {kind}: {one_line(message)}", file=sys.stderr, flush=True)


def check_encoding(encoding: str) -> str:
    """`encoding` itself, or UsageError if Python knows no text encoding of that name."""
    try:
        "\n".encode(encoding)
    except (LookupError, ValueError):
        raise UsageError(f"unknown encoding {encoding!r}: try utf-8, latin-1, gb18030, big5 or utf-16") from None
    return encoding


def _readable_now(fd: int) -> bool:
    """Whether a read of `fd` would return at once. False where that cannot be known (Windows pipes, large fds)."""
    try:
        return bool(select.select([fd], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the bytes of `stream` as they arrive, and b"" each time before it may have to wait for more."""
    try:
        fd = stream.fileno()
    except (OSError, AttributeError):  # in memory
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
        return
    while True:
        if not _readable_now(fd):
            yield b""
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:  # whoever started us left the pipe non-blocking
            select.select([fd], [], [])
            continue
        if not chunk:
            return
        yield chunk


def _to_utf8(chunks: Iterator[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """Recodes a stream whose line ends are not single bytes (UTF-16, UTF-32, EBCDIC)."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8")
        yield decoder.decode(b"", final=True).encode("utf-8")
    except UnicodeError:
        raise InputError(f"{name} is not {encoding} (try another --encoding)") from None


def _split_lines(chunks: Iterator[bytes]) -> Iterator[bytes | None]:
    """Yields lines with their "\\n" (the last one perhaps without), and None each time before it may have to wait."""
    pending = bytearray()
    for chunk in chunks:
        if not chunk:
            yield None
            continue
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            pending += line
            yield bytes(pending) + b"\n"
            pending.clear()
        pending += rest
    if pending:
        yield bytes(pending)


def _decode(raw: bytes, place: str, encoding: str) -> Line:
    """One line as text. Raises InputError naming the place and the byte (counted from 1) that does not belong."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        official = "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
        other = "latin-1" if official == "UTF-8" else "utf-8"
        message = f"{place}, byte {error.start + 1} is not {official} (try --encoding {other})"
        raise InputError(message) from None
    body = text.removesuffix("\n")
    body = body.removesuffix("\r")
    return Line(place, body, text[len(body) :])


@dataclass(frozen=True)
class Source:
    """Somewhere that lines come from: an argument, a file, or the standard input."""

    name: str
    stream: BinaryIO
    whole: bool = False  # an argument: its last line gets an end even where it has none

    def batches(self, encoding: str, size: int) -> Iterator[list[Line]]:
        """Yields lists of 1 to `size` lines: as many as can be had without waiting, so that a slow writer is answered
        line by line and a fast one in full batches. These grow from FIRST_BATCH to `size`, so that the first results
        come soon. Raises InputError at bytes that `encoding` does not allow, after the lines before them."""
        chunks = _read_chunks(self.stream)
        if "\n".encode(encoding) != b"\n":
            chunks, encoding = _to_utf8(chunks, self.name, encoding), "utf-8"
        batch: list[Line] = []
        number = 0
        limit = min(FIRST_BATCH, size)
        problem: InputError | None = None
        try:
            for raw in _split_lines(chunks):
                if raw is not None:
                    number += 1
                    line = _decode(raw, f"{self.name} line {number}", encoding)
                    if number == 1:
                        line = line._replace(text=line.text.removeprefix(BYTE_ORDER_MARK))
                    batch.append(line._replace(end="\n") if self.whole and not line.end else line)
                full = len(batch) >= limit
                if batch and (raw is None or full):
                    ready, batch = batch, []
                    yield ready
                    limit = min(2 * limit, size) if full else limit
        except OSError as error:
            problem = InputError(f"cannot read {self.name}: {error.strerror or error}")
        except InputError as error:
            problem = error
        if batch:
            yield batch
        if problem:
            raise problem


def _open(path: str) -> Source:
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the process; read to the end before
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from None
    return Source(path, stream)


def _stdin() -> Source:
    if sys.stdin is None:
        raise InputError("the standard input is closed: give a text or name a file (--help says how)")
    return Source("stdin", sys.stdin.buffer)


def open_sources(texts: Sequence[str], files: Sequence[str]) -> list[Source]:
    """The sources named on the command line, in order; the standard input where none is named, or for "-".

    Raises InputError for a file that cannot be opened.
    """
    if files:
        return [_stdin() if path == "-" else _open(path) for path in files]
    sources = []
    for number, text in enumerate(texts, 1):
        if text == "-":
            sources.append(_stdin())
        else:  # the bytes that the shell passed, whatever Python made of them; an empty text is one empty line
            sources.append(Source(f"argument {number}", io.BytesIO(os.fsencode(text) or b"\n"), whole=True))
    return sources or [_stdin()]


def read_whole(source: Source, encoding: str) -> str:
    """All of a source's text, its line ends kept. Raises InputError where it cannot be read or decoded."""
    return "".join(line.text + line.end for lines in source.batches(encoding, 4096) for line in lines)


class Output:
    """Where results go, as UTF-8: the standard output, or a file that appears under its name only when complete.

    Use as a context manager; a file that was not completed is removed and what was there before stays.
    """

    def __init__(self, path: str | None) -> None:
        self.name = "the standard output"
        self._temporary: Path | None = None
        self._target: Path | None = None
        if path is None or path == "-":
            if sys.stdout is None:
                raise TxError("the standard output is closed: use -o FILE")
            sys.stdout.flush()
            self._stream: BinaryIO = sys.stdout.buffer
            return
        self.name = path
        try:
            self._stream = self._create(Path(os.path.realpath(path)))
        except OSError as error:
            raise TxError(f"cannot write {path}: {error.strerror or error}") from None

    def _create(self, target: Path) -> BinaryIO:
        if target.exists() and not target.is_file():  # a device or a pipe cannot be replaced, a folder fails here
            return open(target, "wb")
        temporary = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.part")
        stream = open(temporary, "xb")  # noqa: SIM115 - closed in __exit__
        self._temporary, self._target = temporary, target
        if target.exists():
            import shutil  # with what it can compress, 3 ms

            shutil.copymode(target, temporary)
        return stream

    def write(self, text: str) -> None:
        """Writes and flushes `text`. Raises BrokenPipeError if nobody reads any more, TxError if the disk is full."""
        self.write_bytes(text.encode("utf-8"))

    def write_bytes(self, content: bytes) -> None:
        """As `write`, for what is no text."""
        data = memoryview(content)
        try:
            while data:  # an unbuffered stream may take less than it is given
                data = data[self._stream.write(data) :]
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise TxError(f"cannot write {self.name}: {error.strerror or error}") from None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.name == "the standard output":
            return
        with contextlib.suppress(OSError):  # what was written was flushed, so nothing can be lost here
            self._stream.close()
        if self._temporary is None or self._target is None:
            return
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        try:
            os.replace(self._temporary, self._target)
        except OSError as error:
            self._temporary.unlink(missing_ok=True)
            raise TxError(f"cannot write {self.name}: {error.strerror or error}") from None

"""Text in and text out: arguments, files and pipes to lines; results to UTF-8; messages to the standard error.

Standard library only. Everything is read as bytes and decoded here, so that the same input gives the same result or
the same message under every locale. Only "\\n" ends a line; a "\\r" before it belongs to the ending.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
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
PRECISIONS = ("fp32", "bf16", "int8", "auto")
CHUNK_BYTES = 65536
LONGEST_LINE = 65536  # bytes; a longer one comes in parts, or one without end would fill the memory
FIRST_BATCH = 8  # lines; each full batch after it may be twice as long
TYPICAL_LINE = 128  # characters; a batch of so many lines of more than these is full before it has all of them
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
    part: int = (
        0  # of a line longer than LONGEST_LINE its parts come one by one, numbered from 1, the last with the end
    )


def one_line(message: str) -> str:
    """`message` on one line, with control characters, which could move the cursor of a terminal, escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.splitlines()))


def complain(message: str, kind: str = "error") -> None:
    """Prints `tx: error: message` (or another kind) on the standard error as exactly one line."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # closed, or on a full disk: there is nobody to tell
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


def _lines(chunks: Iterator[bytes], name: str, encoding: str, whole: bool) -> Iterator[Line | None]:
    """Yields lines with their ends (the last one perhaps without, unless `whole`), and None each time before it may have
    to wait. Raises InputError naming the line and the byte (counted from 1) that does not belong to the encoding."""
    pending = bytearray()
    number, part, before = 1, 0, 0  # of the line that is pending: parts that were given, and their bytes
    for chunk in chunks:
        if not chunk:
            yield None
            continue
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1
            pending += chunk[start : end or None]
            start = end or len(chunk)
            while len(pending) - bool(end) > LONGEST_LINE:
                from .long_lines import first_part

                place = f"{name} line {number}"
                with _naming(place, encoding, before):
                    text, size = first_part(bytes(pending[:LONGEST_LINE]), encoding)
                part, before = part + 1, before + size
                del pending[:size]
                yield _first(Line(place, text, "", part), number)
            if end:
                yield _line(bytes(pending), name, number, encoding, part, before)
                pending.clear()
                number, part, before = number + 1, 0, 0
    if pending:
        pending += b"\n" if whole else b""
        yield _line(bytes(pending), name, number, encoding, part, before)


def _line(raw: bytes, name: str, number: int, encoding: str, part: int, before: int) -> Line:
    """One line, or the last part of one, as text; `part` and `before` are the number and the bytes of its other parts."""
    place = f"{name} line {number}"
    with _naming(place, encoding, before):
        text = raw.decode(encoding)
    body = text.removesuffix("\n")
    body = body.removesuffix("\r")
    return _first(Line(place, body, text[len(body) :], part + 1 if part else 0), number)


def _first(line: Line, number: int) -> Line:
    """The line without a byte order mark, if it is the first."""
    return line._replace(text=line.text.removeprefix(BYTE_ORDER_MARK)) if number == 1 and line.part < 2 else line


@contextlib.contextmanager
def _naming(place: str, encoding: str, before: int) -> Iterator[None]:
    """Makes an error of decoding one that says where it is; `before` are the bytes of the line before what is decoded."""
    try:
        yield
    except UnicodeDecodeError as error:
        official = "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
        other = "latin-1" if official == "UTF-8" else "utf-8"
        message = f"{place}, byte {before + error.start + 1} is not {official} (try --encoding {other})"
        raise InputError(message) from None


def _by_bytes(encoding: str) -> bool:
    """Whether a line of this encoding can be found by its last byte, and read without what comes before it."""
    stateful = codecs.lookup(encoding).name.startswith(("iso2022", "hz", "utf-7"))
    return "\n".encode(encoding) == b"\n" and not stateful


@dataclass(frozen=True)
class Source:
    """Somewhere that lines come from: an argument, a file, or the standard input."""

    name: str
    stream: BinaryIO
    whole: bool = False  # an argument: its last line gets an end even where it has none

    def batches(self, encoding: str, size: int, *, pauses: bool = False) -> Iterator[list[Line]]:
        """Yields lists of 1 to `size` lines: as many as can be had without waiting, so that a slow writer is answered
        line by line and a fast one in full batches. These grow from FIRST_BATCH to `size`, so that the first results
        come soon; long lines make them full sooner (`is_full`). With `pauses` an empty list is yielded each time before
        this may have to wait for more. Raises InputError at bytes that `encoding` does not allow, after the lines before
        them."""
        chunks = _read_chunks(self.stream)
        if not _by_bytes(encoding):
            chunks, encoding = _to_utf8(chunks, self.name, encoding), "utf-8"
        batch: list[Line] = []
        length = 0  # of its text
        limit = min(FIRST_BATCH, size)
        problem: InputError | None = None
        try:
            for line in _lines(chunks, self.name, encoding, self.whole):
                if line is not None:
                    batch.append(line)
                    length += len(line.text)
                full = len(batch) >= limit or length >= limit * TYPICAL_LINE
                if batch and (line is None or full):
                    ready, batch, length = batch, [], 0
                    yield ready
                    limit = min(2 * limit, size) if full else limit
                if line is None and pauses:
                    yield []
        except OSError as error:
            problem = InputError(f"cannot read {self.name}: {error.strerror or error}")
        except InputError as error:
            problem = error
        if batch:
            yield batch
        if problem:
            raise problem


def is_full(batch: Sequence[Line], size: int) -> bool:
    """Whether a batch is as long as batches of `size` lines become: much more may follow."""
    return len(batch) >= size or sum(len(line.text) for line in batch) >= size * TYPICAL_LINE


def open_file(path: str) -> Source:
    """The file of that name. Raises InputError."""
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
        return [_stdin() if path == "-" else open_file(path) for path in files]
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


def descriptor_of(path: str) -> int | None:
    """The open descriptor that a path stands for, as /dev/stdout, /dev/fd/63, /proc/self/fd/1 and links to them do; None
    for any other. What it leads to may be a file, but one that others write too, or that has no name at all."""
    for _ in range(40):  # as many links as Linux follows
        folder, name = os.path.split(path)
        folder = os.path.realpath(folder)
        if folder in ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd"):
            return int(name) if name.isascii() and name.isdigit() and len(name) < 10 else None
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    return None


def _duplicate(descriptor: int) -> BinaryIO:
    """A stream that writes where the descriptor does, after what was written there."""
    standard = {1: sys.stdout, 2: sys.stderr}
    if descriptor in standard:
        stream = standard[descriptor]
        if stream is None:  # closed when we were started: what has its number now is another file
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        stream.flush()
    return open(os.dup(descriptor), "wb")


class Output:
    """Where results go, as UTF-8: the standard output, or a file that appears under its name only when complete.

    Use as a context manager; a file that was not completed is removed and what was there before stays.
    """

    def __init__(self, path: str | None) -> None:
        self.name = "the standard output"
        self.ended = True  # whether the last line written has its end
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
            descriptor = descriptor_of(path)
            if descriptor is None:
                self._stream = self._create(Path(os.path.realpath(path)))
            else:
                self._stream = _duplicate(descriptor)
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

    def is_terminal(self) -> bool:
        """Whether someone sees what is written at once."""
        return self._stream.isatty()

    def write(self, text: str) -> None:
        """Writes and flushes `text`. Raises BrokenPipeError if nobody reads any more, TxError if the disk is full."""
        self.write_bytes(text.encode("utf-8"))

    def write_bytes(self, content: bytes) -> None:
        """As `write`, for what is no text."""
        data = memoryview(content)
        self.ended = content.endswith(b"\n") if content else self.ended
        try:
            while data:  # an unbuffered stream may take less than it is given
                data = data[self._taken(data) :]
            while not self._flushed():
                pass
        except BrokenPipeError:
            raise
        except OSError as error:
            raise TxError(f"cannot write {self.name}: {error.strerror or error}") from None

    def _taken(self, data: memoryview) -> int:
        """How many bytes the stream takes. Whoever started us may have left it non-blocking: then this waits."""
        try:
            taken: int | None = self._stream.write(data)
        except BlockingIOError as error:
            taken = error.characters_written or None
        if taken is None:
            select.select([], [self._stream], [])
        return taken or 0

    def _flushed(self) -> bool:
        try:
            self._stream.flush()
        except BlockingIOError:
            select.select([], [self._stream], [])
            return False
        return True

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

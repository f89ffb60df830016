from __future__ import annotations

import io
import os
import stat
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tx.cli.text_io import (
    LONGEST_LINE,
    Line,
    Output,
    Source,
    check_encoding,
    descriptor_of,
    is_full,
    one_line,
    open_sources,
)
from tx.model.errors import InputError, TxError, UsageError


def read(data: bytes, encoding: str = "utf-8", size: int = 256, whole: bool = False) -> list[Line]:
    source = Source("stdin", io.BytesIO(data), whole=whole)
    return [line for batch in source.batches(encoding, size) for line in batch]


def texts(data: bytes, encoding: str = "utf-8") -> list[tuple[str, str]]:
    return [(line.text, line.end) for line in read(data, encoding)]


def test_line_ends_are_kept_apart_from_the_text() -> None:
    assert texts(b"a\r\n\n  \nb\rc\nlast") == [("a", "\r\n"), ("", "\n"), ("  ", "\n"), ("b\rc", "\n"), ("last", "")]
    assert texts(b"") == []
    assert texts(b"\n") == [("", "\n")]


def test_only_line_feed_ends_a_line() -> None:
    odd = "a\u2028b\x0bc\x85d\x0ce\x00f"
    assert texts(odd.encode() + b"\n") == [(odd, "\n")]


@given(st.text().filter(lambda s: not s.startswith("\ufeff")), st.integers(1, 4))
def test_lines_put_together_are_the_input(text: str, size: int) -> None:
    data = text.encode("utf-8", "replace")
    assert "".join(line.text + line.end for line in read(data, size=size)).encode() == data


def test_batches_are_bounded_and_complete() -> None:
    source = Source("stdin", io.BytesIO(b"x\n" * 1000))
    sizes = [len(batch) for batch in source.batches("utf-8", 300)]
    assert sizes == [8, 16, 32, 64, 128, 256, 300, 196]


def parts(data: bytes, encoding: str = "utf-8") -> list[Line]:
    """The parts of the first line, after a look at their numbers, ends and lengths."""
    lines = [line for line in read(data, encoding) if line.place == "stdin line 1"]
    assert [line.part for line in lines] == list(range(1, len(lines) + 1))
    assert [line.end for line in lines[:-1]] == [""] * (len(lines) - 1)
    assert all(LONGEST_LINE // 3 < len(line.text.encode(encoding)) <= LONGEST_LINE for line in lines[:-1])
    return lines


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "big5", "utf-16"])
def test_a_long_line_without_spaces_comes_in_parts(encoding: str) -> None:
    long = "漢" * 100_000
    lines = parts(f"{long}\nb".encode(encoding), encoding)
    assert len(lines) > 1
    assert "".join(line.text for line in lines) == long
    assert read(f"{long}\nb".encode(encoding), encoding)[-1] == Line("stdin line 2", "b", "")


def test_a_long_line_is_split_after_a_sentence_or_else_a_word() -> None:
    sentences = "A cat sat on the mat. " * 8000
    assert [line.text[-5:] for line in parts(sentences.encode())] == ["mat. "] * 3
    chinese = "猫坐在垫子上。" * 8000
    assert [line.text[-2:] for line in parts(chinese.encode())] == ["上。"] * 3
    words = "some words and no full stop " * 8000
    assert all(line.text.endswith(" ") for line in parts(words.encode()))
    assert "".join(line.text for line in parts(words.encode())) == words


def test_where_a_long_line_is_split_does_not_depend_on_how_it_arrives() -> None:
    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(777)

    data = b"word " * 40_000 + b"\nb\n"
    slow = [line for batch in Source("stdin", Dribble(data)).batches("utf-8", 256) for line in batch]
    assert slow == read(data)
    assert slow[-2].end == "\n"


def test_a_line_of_the_longest_length_is_whole() -> None:
    for length, count in ((LONGEST_LINE, 1), (LONGEST_LINE + 1, 2)):
        assert len(read(b"x" * length + b"\n")) == len(read(b"x" * length)) == count


def test_marks_stay_with_their_letters_in_a_long_line() -> None:
    lines = parts(("a" + "e\u0301" * 40_000).encode())
    assert not any(line.text.startswith("\u0301") for line in lines)


def test_bad_bytes_in_a_long_line_are_named() -> None:
    with pytest.raises(InputError, match=r"^stdin line 2, byte 150001 is not UTF-8"):
        read(b"a\n" + b"x" * 150_000 + b"\xff\n")


def test_a_long_argument_has_one_end() -> None:
    (source,) = open_sources(["word " * 20_000], [])
    ends = [line.end for batch in source.batches("utf-8", 9) for line in batch]
    assert ends == ["", "\n"]


def test_a_batch_of_long_lines_is_full_sooner() -> None:
    lines = [b"x" * 400 + b"\n"] * 40
    sizes = [len(batch) for batch in Source("stdin", io.BytesIO(b"".join(lines))).batches("utf-8", 16)]
    assert sizes[0] == 3  # of 8, where lines are short
    batches = list(Source("stdin", io.BytesIO(b"x\n" * 30)).batches("utf-8", 8))
    assert [is_full(batch, 8) for batch in batches] == [True, True, True, False]
    assert is_full(read(b"x" * 2000), 8)


@pytest.mark.parametrize("encoding", ["iso2022_jp", "hz", "utf-7"])
def test_encodings_with_a_state(encoding: str) -> None:
    text = "日本 and 日本"
    assert texts(f"{text}\n{text}".encode(encoding), encoding) == [(text, "\n"), (text, "")]


def test_byte_order_mark_is_dropped_at_the_start_only() -> None:
    assert texts("\ufeffa\n\ufeffb\n".encode()) == [("a", "\n"), ("\ufeffb", "\n")]


def test_places_count_from_one() -> None:
    assert [line.place for line in read(b"a\nb\n")] == ["stdin line 1", "stdin line 2"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"caf\xe9\n", "stdin line 1, byte 4 is not UTF-8 (try --encoding latin-1)"),
        (b"a\nb\n0123456789012345\xffx\n", "stdin line 3, byte 17 is not UTF-8 (try --encoding latin-1)"),
        (b"a\n\xe4\xbd", "stdin line 2, byte 1 is not UTF-8 (try --encoding latin-1)"),
        (b"\xed\xa0\x80\n", "stdin line 1, byte 1 is not UTF-8 (try --encoding latin-1)"),
    ],
)
def test_bytes_that_are_not_utf8_are_named(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(data)
    assert str(caught.value) == message


def test_lines_before_bad_bytes_are_not_lost() -> None:
    batches = Source("stdin", io.BytesIO(b"a\nb\n\xff\nc\n")).batches("utf-8", 256)
    assert [line.text for line in next(batches)] == ["a", "b"]
    with pytest.raises(InputError, match="line 3"):
        next(batches)


@pytest.mark.parametrize(
    "encoding", ["latin-1", "gb18030", "big5", "shift_jis", "utf-16", "utf-16-le", "utf-32", "cp500"]
)
def test_other_encodings(encoding: str) -> None:
    wanted = (
        [("café", "\r\n"), ("", "\n"), ("b", "")] if encoding in ("latin-1", "cp500") else [("日本", "\n"), ("b", "")]
    )
    data = "".join(text + end for text, end in wanted).encode(encoding)
    assert texts(data, encoding) == wanted


def test_wrong_utf16_is_an_error() -> None:
    with pytest.raises(InputError, match="stdin is not utf-16"):
        read(b"\xff\xfea", "utf-16")


@pytest.mark.parametrize("name", ["nope", "base64", "rot13", "a\0b"])
def test_unknown_encoding(name: str) -> None:
    with pytest.raises(UsageError, match="unknown encoding"):
        check_encoding(name)


def test_a_slow_writer_is_answered_line_by_line() -> None:
    receiving, sending = os.pipe()
    with open(receiving, "rb", buffering=0) as stream, open(sending, "wb", buffering=0) as writer:
        batches = Source("stdin", stream).batches("utf-8", 256)
        writer.write(b"one\nhal")
        assert [line.text for line in next(batches)] == ["one"]
        writer.write(b"f\nthree\n")
        assert [line.text for line in next(batches)] == ["half", "three"]
        writer.write(b"end")
        writer.close()
        assert [line.text for line in next(batches)] == ["end"]
        assert next(batches, None) is None


def test_a_pipe_that_was_left_non_blocking() -> None:
    receiving, sending = os.pipe()
    os.set_blocking(receiving, False)
    with open(receiving, "rb", buffering=0) as stream, open(sending, "wb", buffering=0) as writer:
        later = threading.Timer(0.1, lambda: (writer.write(b"a\n"), writer.close()))
        later.start()
        lines = [line.text for batch in Source("stdin", stream).batches("utf-8", 256) for line in batch]
        later.join()
    assert lines == ["a"]


def test_arguments_are_bytes_again() -> None:
    raw = b"caf\xe9"
    (source,) = open_sources([os.fsdecode(raw)], [])
    assert [line.text for batch in source.batches("latin-1", 9) for line in batch] == ["café"]
    with pytest.raises(InputError, match=r"^argument 1 line 1, byte 4 is not UTF-8"):
        list(open_sources([os.fsdecode(raw)], [])[0].batches("utf-8", 9))


def test_every_argument_line_has_an_end() -> None:
    sources = open_sources(["a", "b\nc", "", "d\n"], [])
    lines = [(line.text, line.end) for source in sources for batch in source.batches("utf-8", 9) for line in batch]
    assert lines == [("a", "\n"), ("b", "\n"), ("c", "\n"), ("", "\n"), ("d", "\n")]


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        open_sources([], [str(tmp_path / "nope")])
    with pytest.raises(InputError, match="directory"):
        [list(source.batches("utf-8", 9)) for source in open_sources([], [str(tmp_path)])]


def test_closed_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        open_sources([], [])
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(TxError, match="standard output is closed"):
        Output(None)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("before")
    target.chmod(0o640)
    with Output(str(target)) as out:
        out.write("é after")
        assert target.read_text() == "before"
    assert target.read_bytes() == "é after".encode()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("before")
    with pytest.raises(KeyboardInterrupt), Output(str(target)) as out:
        out.write("half")
        raise KeyboardInterrupt
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "out.txt", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    with Output(str(link)) as out:
        out.write("after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_a_device_is_written_not_replaced() -> None:
    with Output(os.devnull) as out:
        out.write("x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_descriptor_is_written_not_its_file_replaced(tmp_path: Path, name: str) -> None:
    with open(tmp_path / "f", "wb", buffering=0) as stream:
        if not os.path.exists(path := name.format(stream.fileno())) and name != "link":
            pytest.skip("not on this system")
        if name == "link":
            path = str(tmp_path / "link")
            os.symlink(f"/dev/fd/{stream.fileno()}", path)
        stream.write(b"one\n")
        with Output(path) as out:
            out.write("two\n")
            assert not out.is_terminal()
        stream.write(b"three\n")
    assert (tmp_path / "f").read_text() == "one\ntwo\nthree\n"
    assert {entry.name for entry in tmp_path.iterdir()} <= {"f", "link"}


def test_what_is_no_open_descriptor(tmp_path: Path) -> None:
    assert [descriptor_of(path) for path in ("/dev/fd/7", "/dev/fd", "/dev/fd/x", "/dev/null", "fd/1")] == [
        7,
        *[None] * 4,
    ]
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert descriptor_of(str(tmp_path / "a")) is None
    with pytest.raises(TxError, match="^cannot write /dev/fd/999999: Bad file descriptor$"):
        Output("/dev/fd/999999")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_error() -> None:
    with pytest.raises(TxError, match="^cannot write /dev/full: No space left on device$"), Output("/dev/full") as out:
        out.write("x")


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(TxError, match="cannot write"):
        Output(str(tmp_path))
    with pytest.raises(TxError, match="No such file"):
        Output(str(tmp_path / "nope" / "out.txt"))


def test_an_unbuffered_stream_may_take_less() -> None:
    class Slow(io.BytesIO):
        def write(self, data: object) -> int:
            return super().write(bytes(data)[:3])  # type: ignore[call-overload]

    out = Output.__new__(Output)
    out.name, out._stream = "slow", Slow()
    out.write("abcdefgh")
    assert out._stream.getvalue() == b"abcdefgh"  # type: ignore[attr-defined]


def test_messages_are_one_harmless_line() -> None:
    assert one_line("a\nb\x1b[31m[bold] 你好\r\x07") == "a b\\x1b[31m[bold] 你好 \\x07"

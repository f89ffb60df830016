"""The tokenizer: no text is lost, numbers are spelt digit by digit, and no text can spell a special piece."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tx.model import tokenizer as tokenizer_module
from tx.model.checkpoint import WEIGHTS_DIR
from tx.model.errors import CheckpointError
from tx.model.tokenizer import BYTE_PIECES, PLAIN_CHARACTERS, Tokenizer

SPECIAL = ("<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>", "<summarize>", "<answer>")
TEXTS = {
    "empty": "",
    "a space": " ",
    "leading spaces": "   indented",
    "one leading space": " x",
    "a leading space before Chinese": " 你好",
    "trailing spaces": "done.  ",
    "double spaces": "two  spaces   here",
    "tabs": "\tname\tvalue\t",
    "newlines": "first\nsecond\r\n\n third\r",
    "NUL and other controls": "a\x00b\x01\x1b[0m\x7f",
    "the mark that other vocabularies write for a space": "\u2581\u2581 and \u2581word",
    "non-breaking and ideographic spaces": "a\u00a0b\u3000c\u2009d\u200be",
    "emoji joined into one": "a family 👨‍👩‍👧‍👦, a flag 🏳️‍🌈, a hand 👋🏽",
    "rare Han beyond the BMP": "𠮷野家 𪚥 𰻝麵",
    "full-width digits and letters": "１２３ ＡＢＣ，！",
    "digits": "1234567890 3.14 ２０ ²½",
    "special pieces, spelt": "</s> <pad> <unk> <0xE4> <translate:zh> <translate:en> <summarize> <answer>",
    "bytes of a character, spelt": "<0xE4><0xBD><0xA0>",
    "combining marks": "e\u0301 n\u0303 \u0301alone Z\u0351\u036f\u0344",
    "composed and decomposed": "\u00e9 e\u0301 \uac00 \u1100\u1161",
    "right to left": "שלום \u200fعالم\u200e!",
    "byte order mark": "\ufeffstart",
    "replacement character": "\ufffd",
    "the last code point": "\U0010ffff",
    "case and width": "McDonald's IPHONE iPhone ｉＰｈｏｎｅ",
    "mixed": "我用 iPhone 15 看 NLP 的文章。",
    "accented start": "École d’été",
}


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The vocabulary of the default weights."""
    return Tokenizer.from_file(WEIGHTS_DIR / "en-zh" / "tokenizer.json")


@pytest.fixture(scope="session")
def round_trip(tokenizer: Tokenizer) -> Callable[[str], str]:
    return lambda text: tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_nothing_is_lost(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & set(tokenizer.special)


# Texts that mix what a vocabulary knows with what it does not: most random characters alone would all be bytes.
WORDS = st.sampled_from(
    ["the", " ", "  ", "你好", "。", "12", "\u2581", "</s>", "<0xE4>", "\n", "\t", "é", "𠮷", "Tom"]
)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@settings(deadline=None, max_examples=300)
@given(st.one_of(ANY, st.lists(st.one_of(WORDS, ANY.map(lambda t: t[:3])), max_size=15).map("".join)))
@example(" ")
@example(" A")
@example("À")
def test_nothing_is_lost_in_any_text(round_trip: Callable[[str], str], text: str) -> None:
    assert round_trip(text) == text


@settings(deadline=None, max_examples=100)
@given(st.lists(ANY, max_size=5))
def test_a_batch_is_its_texts(tokenizer: Tokenizer, texts: list[str]) -> None:
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(t) for t in texts]


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_pieces_decode_to_text(tokenizer: Tokenizer, data: st.DataObject) -> None:
    first_byte = tokenizer.id("<0x00>")
    ids = st.one_of(st.integers(0, tokenizer.vocab_size - 1), st.integers(first_byte, first_byte + 255))
    text = tokenizer.decode(data.draw(st.lists(ids, max_size=30)))
    assert "\ufffd" not in text
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_broken_bytes_leave_the_text_around_them(tokenizer: Tokenizer) -> None:
    start, end = tokenizer.encode("before"), tokenizer.encode("你")
    for broken in (["<0xE4>"], ["<0xE4>", "<0xBD>"], ["<0x80>"], ["<0xFF>", "<0xFE>"], ["<0xC0>", "<0xAF>"]):
        ids = start + [tokenizer.id(p) for p in broken] + end
        assert tokenizer.decode(ids) == "before你"


def test_special_pieces_say_nothing(tokenizer: Tokenizer) -> None:
    assert set(tokenizer.special.values()) == set(SPECIAL)
    ids = [i for piece in tokenizer.encode("a word") for i in (tokenizer.id("</s>"), piece, tokenizer.id("<pad>"))]
    assert tokenizer.decode(ids) == "a word"


def test_the_size_is_as_planned(tokenizer: Tokenizer) -> None:
    assert 12_000 <= tokenizer.vocab_size <= 16_000


def test_no_piece_holds_more_than_one_digit(tokenizer: Tokenizer) -> None:
    for piece in tokenizer.pieces(range(tokenizer.vocab_size)):
        if not piece.startswith("<0x"):
            assert len(piece) == 1 or not any(c.isnumeric() and not "一" <= c <= "龥" for c in piece), piece
    assert tokenizer.pieces(tokenizer.encode("in 2026"))[-4:] == ["2", "0", "2", "6"]


def test_every_byte_and_every_ascii_character_is_there(tokenizer: Tokenizer) -> None:
    assert [tokenizer.id(f"<0x{b:02X}>") for b in range(256)] == sorted(
        tokenizer.id(f"<0x{b:02X}>") for b in range(256)
    )
    for b in range(32, 127):
        assert tokenizer.decode([tokenizer.id(chr(b)), tokenizer.id(chr(b))])[-1] == chr(b)


def test_unknown_characters_become_their_bytes(tokenizer: Tokenizer) -> None:
    expected = [f"<0x{b:02X}>" for b in "𪚥𠮷".encode()]
    assert tokenizer.pieces(tokenizer.encode("𪚥𠮷")) == expected


def test_a_word_is_the_same_pieces_everywhere(tokenizer: Tokenizer) -> None:
    """At the start of a line as inside it; a text that really starts with a space is another one."""
    assert tokenizer.encode("the garden") == tokenizer.encode("the") + tokenizer.encode("garden")
    assert tokenizer.encode(" the") != tokenizer.encode("the")


def test_ordinary_text_takes_few_pieces(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("The children were playing in the garden.")) <= 12
    assert len(tokenizer.encode("孩子们在花园里玩。")) <= 9
    assert not any(p.startswith("<0x") for p in tokenizer.pieces(tokenizer.encode("他们说：“我们明天见！”")))


def test_ids_and_pieces_are_one_to_one(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert len(set(pieces)) == tokenizer.vocab_size
    assert [tokenizer.id(p) for p in pieces] == list(range(tokenizer.vocab_size))
    with pytest.raises(KeyError):
        tokenizer.id("no such piece")


def test_it_is_the_same_after_saving(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert again.to_json() == tokenizer.to_json()
    assert again.special == tokenizer.special
    assert [again.encode(t) for t in TEXTS.values()] == [tokenizer.encode(t) for t in TEXTS.values()]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"version": "1.0", "model": {"type": "Unigram"}}'])
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is not a readable") as caught:
        Tokenizer.from_file(path)
    assert "\n" not in str(caught.value)


def test_a_truncated_or_missing_file_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(CheckpointError, match="tokenizer.json"):
        Tokenizer.from_file(path)
    path.write_text(tokenizer.to_json()[:-100], encoding="utf-8")
    with pytest.raises(CheckpointError, match="tokenizer.json"):
        Tokenizer.from_file(path)


# --- the segmentation of our own, and the library's ---


@pytest.fixture(scope="session")
def plain() -> Tokenizer:
    """The default vocabulary without the library, however much is encoded."""
    found = Tokenizer.from_file(WEIGHTS_DIR / "en-zh" / "tokenizer.json")
    found._left = 10**12
    return found


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_both_give_the_same_pieces(tokenizer: Tokenizer, plain: Tokenizer, text: str) -> None:
    assert [plain.encode(text)] == tokenizer.encode_batch([text])
    assert "backend" not in vars(plain)


# Repetitions have segmentations that are as good as equal.
REPEATED = st.tuples(st.one_of(WORDS, ANY.map(lambda t: t[:2]), st.sampled_from("哈.!-=a ")), st.integers(1, 9))


@settings(deadline=None, max_examples=500)
@given(st.one_of(ANY, st.lists(REPEATED.map(lambda r: r[0] * r[1]), max_size=12).map("".join)))
def test_both_give_the_same_pieces_for_any_text(tokenizer: Tokenizer, plain: Tokenizer, text: str) -> None:
    assert [plain.encode(text)] == tokenizer.encode_batch([text])


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_both_give_the_same_pieces_for_any_vocabulary(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Few characters and few scores, so that many segmentations are equally good."""
    texts = st.text("ab ", min_size=1, max_size=4)
    pieces = data.draw(st.lists(texts, unique=True, min_size=1, max_size=12))
    scores = st.sampled_from([-1.0, -1.5, -2.0, -2.0 - 2**-51, -3.7, -20.0])
    vocab = [("<unk>", -5.0), *((p, -9.0) for p in BYTE_PIECES), *((p, data.draw(scores)) for p in pieces)]
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=0, byte_fallback=True))
    path = tmp_path_factory.getbasetemp() / "any.json"
    backend.save(str(path))
    ours = Tokenizer.from_file(path)
    for text in data.draw(st.lists(st.text("abc ", max_size=20), min_size=1, max_size=5)):
        assert [ours.encode(text)] == Tokenizer(backend).encode_batch([text])
    assert "backend" not in vars(ours)


def test_the_library_is_loaded_for_long_texts_only(tokenizer: Tokenizer) -> None:
    ours = Tokenizer.from_file(WEIGHTS_DIR / "en-zh" / "tokenizer.json")
    line = "a line of one hundred characters " * 3
    for _ in range(PLAIN_CHARACTERS // (len(line) + 1)):
        assert ours.encode(line) == tokenizer.encode(line)
    assert "backend" not in vars(ours)
    assert ours.encode(line) == tokenizer.encode(line)
    assert "backend" in vars(ours)
    assert ours.special == tokenizer.special and ours.vocab_size == tokenizer.vocab_size


def test_a_sentence_needs_no_library() -> None:
    code = (
        "import sys; from tx.model.tokenizer import Tokenizer; t = Tokenizer.from_file(sys.argv[1]); "
        "assert t.decode(t.encode('I love NLP 🙂')) == 'I love NLP 🙂'; assert 'tokenizers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, WEIGHTS_DIR / "en-zh" / "tokenizer.json"], check=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(normalizer={"type": "NFKC"}),
        lambda v: v.update(pre_tokenizer={"type": "Whitespace"}),
        lambda v: v.update(truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}),
        lambda v: v.update(added_tokens=[{**ADDED, "id": 260, "content": "ab"}]),
        lambda v: v["model"].update(byte_fallback=False),
        lambda v: v["model"]["vocab"].pop(20),
        lambda v: v["model"]["vocab"].append(["a", -0.1]),
        lambda v: v["model"]["vocab"].append(["aa", -1]),
    ],
)
def test_what_would_change_a_text_is_left_to_the_library(tmp_path: Path, change: Callable[[object], None]) -> None:
    vocab = [("<unk>", -5.0), *((p, -9.0) for p in BYTE_PIECES), ("a", -1.0), ("b", -2.0), (" ", -1.0), ("ab", -2.5)]
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=0, byte_fallback=True))
    values = json.loads(backend.to_str())
    assert tokenizer_module._read_unigram(json.dumps(values)) is not None
    change(values)
    (tmp_path / "t.json").write_text(json.dumps(values))
    changed = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    for text in ("ab aaé ﬁb", "a", "", "ba\tab"):
        expected = changed.encode(" " + text if text[:1].isalpha() else text, add_special_tokens=False).ids
        assert Tokenizer.from_file(tmp_path / "t.json").encode(text) == expected


ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


# --- places ---


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=40) | st.text(st.sampled_from("ab Ann é 12,\n\t\u3000你好𠮷😀👨\u200d👩"), max_size=40))
@example("  two  spaces \n Ann  ")
@example("𠮷😀 é")
@example(" ")
def test_places_are_where_the_pieces_are_spelt(tokenizer: Tokenizer, text: str) -> None:
    ids, places = tokenizer.encode_with_places(text)
    assert ids == tokenizer.encode(text) and len(places) == len(ids)
    assert [start for start, _ in places] == sorted(start for start, _ in places)
    assert [end for _, end in places] == sorted(end for _, end in places)
    for i, (start, end) in zip(ids, places, strict=True):
        assert 0 <= start <= end <= len(text)
        (piece,) = tokenizer.pieces([i])
        if piece in BYTE_PIECES:
            assert end == start + 1 and BYTE_PIECES.index(piece) in text[start].encode()
        else:
            assert text[start:end] == piece.lstrip(" ")
    covered = {k for start, end in places for k in range(start, end)}
    assert {k for k, char in enumerate(text) if char != " "} <= covered


def test_scores_are_those_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    vocabulary = json.loads(tokenizer.to_json())["model"]["vocab"]
    assert list(tokenizer.scores) == [score for _, score in vocabulary]
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert list(Tokenizer(words).scores) == [0.0, 0.0]

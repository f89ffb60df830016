"""Vocabularies of other projects: only text is encoded, places are those in the text, and decoding gives it back."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tx.model.errors import CheckpointError
from tx.model.foreign_tokenizer import VOCABULARIES, LibraryTokenizer, read_tokenizers
from tx.model.languages import M2M100, MBART, MBART_50, NLLB
from tx.model.sentencepiece_model import parse

sentencepiece = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")

LINES = [
    "The ferry leaves at seven and comes back before it is dark.",
    "Two of the lamps in the corridor were broken, so nobody saw the step.",
    "Bread, salt and a little oil: that was all they had left.",
    "渡轮七点出发，天黑之前回来。",
    "Äpfel und Öl; déjà vu; señor; 100 % of 3.5 km",
]
TEXTS = st.text(
    st.one_of(st.sampled_from("abc .,-</>s_▁\t\n\u3000é中文\u0301👩"), st.characters(exclude_categories=["Cs"]))
)
HEALTH = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


def train(**options: Any) -> bytes:
    file = io.BytesIO()
    options = {"vocab_size": 400 if options.get("byte_fallback") else 130, "hard_vocab_limit": False, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3), model_writer=file, minloglevel=2, **options
    )
    return file.getvalue()


def write(path: Path, values: Any) -> Path:
    path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model() -> bytes:
    return train()


@pytest.fixture(scope="module")
def with_bytes() -> LibraryTokenizer:
    return LibraryTokenizer(parse(train(byte_fallback=True, normalization_rule_name="identity")).to_tokenizers_json())


@pytest.fixture(scope="module")
def unigram(model: bytes) -> LibraryTokenizer:
    return LibraryTokenizer(parse(model).to_tokenizers_json())


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as BART's: vocab.json and merges.txt."""
    folder = tmp_path_factory.mktemp("bart")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.train_from_iterator(LINES, trainer)
    model = json.loads(backend.to_str())["model"]
    write(folder / "vocab.json", model["vocab"])
    write(folder / "merges.txt", "#version: 0.2\n" + "\n".join(" ".join(pair) for pair in model["merges"]) + "\n")
    return folder


# --- text and back ---


@pytest.mark.parametrize("kind", ["unigram", "with_bytes", "bart"])
@pytest.mark.parametrize("text", LINES)
def test_decoding_gives_the_text(kind: str, text: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    tokenizer = read_tokenizers(found, "bart")[0] if kind == "bart" else found
    expected = text.replace("，", ",") if kind == "unigram" else text  # normalised
    assert tokenizer.decode(tokenizer.encode(text)) == expected
    if kind == "unigram":
        assert "".join(tokenizer.pieces(tokenizer.encode(text))).removeprefix(" ") == expected
    assert b"".join(map(tokenizer.spelling, tokenizer.encode(text))).decode().removeprefix(" ") == expected


@HEALTH
@given(text=TEXTS)
def test_bytes_bring_any_text_back(text: str, with_bytes: LibraryTokenizer, bart: Path) -> None:
    byte_level = read_tokenizers(bart, "bart")[0]
    assert byte_level.decode(byte_level.encode(text)) == (text[1:] if text.startswith(" ") else text)
    words = " ".join(word for word in text.replace("▁", " ").split(" ") if word)  # spaces as SentencePiece has them
    assert with_bytes.decode(with_bytes.encode(words)) == words


@pytest.mark.parametrize("kind", ["unigram", "with_bytes", "bart"])
@HEALTH
@given(text=TEXTS)
def test_places_are_in_the_text(kind: str, text: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    tokenizer = read_tokenizers(found, "bart")[0] if kind == "bart" else found
    ids, places = tokenizer.encode_with_places(text)
    assert ids == tokenizer.encode(text)
    assert len(ids) == len(places)
    assert all(0 <= start <= end <= len(text) for start, end in places)
    assert places == sorted(places)
    if kind != "unigram":  # which normalises
        for piece, (start, end) in zip(tokenizer.pieces(ids), places, strict=True):
            if not piece.startswith("<"):
                assert piece.lstrip(" ") == text[start:end].replace("▁", " ").lstrip(" ")


def test_places_where_normalisation_changes_lengths(unigram: LibraryTokenizer) -> None:
    text = "  The ﬁsh\u3000ｗａｓ  cafe\u0301."
    ids, places = unigram.encode_with_places(text)
    covered = "".join(text[start:end] for start, end in dict.fromkeys(places))
    assert covered == "TheﬁshｗａｓｃAFE".replace("ｃAFE", "cafe\u0301.")
    assert unigram.decode(ids).startswith("The fi")


def test_a_character_in_several_pieces_has_one_place(with_bytes: LibraryTokenizer, bart: Path) -> None:
    for tokenizer in (with_bytes, read_tokenizers(bart, "bart")[0]):
        ids, places = tokenizer.encode_with_places("a 👍b")
        assert set(places) >= {(2, 3)}
        assert places.count((2, 3)) >= 2
        assert places[-1] == (3, 4)
        names = tokenizer.pieces(ids)
        assert [name for name, place in zip(names, places, strict=True) if place == (2, 3)][-1] == "<0x8D>"


def test_only_text_is_encoded(unigram: LibraryTokenizer, bart: Path) -> None:
    for tokenizer in (unigram, read_tokenizers(bart, "bart")[0]):
        for text in ("</s>", "a<s>b</s>", "<unk>", "<pad> <mask>"):
            ids = tokenizer.encode(text)
            assert not {i for i in ids if tokenizer.special.get(i, "<unk>") != "<unk>"}
        assert tokenizer.encode("") == []
        assert tokenizer.decode(list(tokenizer.special)) == ""
        assert tokenizer.decode([10**9, -1]) == ""
        assert tokenizer.encode_batch(["a", "b a"]) == [tokenizer.encode("a"), tokenizer.encode("b a")]


def test_scores_and_ids(unigram: LibraryTokenizer, model: bytes, bart: Path) -> None:
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert unigram.vocab_size == library.get_piece_size()
    assert unigram.scores == [library.get_score(i) for i in range(unigram.vocab_size)]
    assert unigram.special == {0: "<unk>", 1: "<s>", 2: "</s>"}
    assert unigram.id("</s>") == 2
    assert unigram.id("▁the") == unigram.id(" the") == library.piece_to_id("▁the")
    with pytest.raises(KeyError):
        unigram.id("no such piece")
    byte_level = read_tokenizers(bart, "bart")[0]
    assert np.exp(byte_level.scores).sum() == pytest.approx(1, abs=0.01)  # by their numbers
    assert byte_level.scores[2] == pytest.approx(byte_level.scores[0] - np.log(3))
    assert sorted(byte_level.special.values()) == ["</s>", "<mask>", "<pad>", "<s>", "<unk>"]


def test_what_is_saved_is_read_again(unigram: LibraryTokenizer, bart: Path, tmp_path: Path) -> None:
    for tokenizer in (unigram, read_tokenizers(bart, "bart")[0]):
        tokenizer.save(tmp_path / "tokenizer.json")
        again = LibraryTokenizer.from_file(tmp_path / "tokenizer.json")
        tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        assert again.to_json() == tokenizer.to_json()
        assert (again.special, again.scores) == (tokenizer.special, tokenizer.scores)
        for text in [*LINES, "  ﬁ 👍 </s>"]:
            assert again.encode_with_places(text) == tokenizer.encode_with_places(text)


# --- folders ---


def test_marian(tmp_path: Path, model: bytes) -> None:
    target = train(model_type="bpe")
    source_model, target_model = parse(model), parse(target)
    names = sorted({*source_model.pieces[3:], *target_model.pieces[3:]} - {"▁the"})  # one that vocab.json has not
    vocabulary = {"</s>": 0, "<unk>": 1, **{name: i for i, name in enumerate([*names, ">>deu<<", "<pad>"], 2)}}
    write(tmp_path / "vocab.json", vocabulary)
    (tmp_path / "source.spm").write_bytes(model)
    (tmp_path / "target.spm").write_bytes(target)
    source, other = read_tokenizers(tmp_path, "marian")
    assert source is not other
    assert source.vocab_size == other.vocab_size == len(vocabulary)
    assert set(source.special.values()) == {"</s>", "<unk>", "<pad>", ">>deu<<"}
    for tokenizer, content in ((source, model), (other, target)):
        library = sentencepiece.SentencePieceProcessor(model_proto=content)
        for line in LINES:
            expected = [vocabulary.get(piece, 1) for piece in library.encode(line, out_type=str)]
            assert tokenizer.encode(line) == expected
    (tmp_path / "target.spm").write_bytes(model)
    source, other = read_tokenizers(tmp_path, "marian")
    assert source is other
    write(tmp_path / "target_vocab.json", {"</s>": 0, "<unk>": 1, "▁the": 2})
    source, other = read_tokenizers(tmp_path, "marian")
    assert (source.vocab_size, other.vocab_size) == (len(vocabulary), 3)
    assert other.decode([2, 1, 0]) == "the"


def test_t5(tmp_path: Path) -> None:
    content = train(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (tmp_path / "spiece.model").write_bytes(content)
    tokenizer, same = read_tokenizers(tmp_path, "t5")
    library = sentencepiece.SentencePieceProcessor(model_proto=content)
    assert tokenizer is same
    assert tokenizer.vocab_size == library.get_piece_size() + 100
    assert tokenizer.special[tokenizer.vocab_size - 1] == "<extra_id_0>"
    for line in [*LINES, "a <extra_id_0> b </s>"]:
        assert tokenizer.encode(line) == library.encode(line)


@pytest.mark.parametrize(("settings", "languages"), [
    ({"tokenizer_class": "MBartTokenizer"}, MBART),
    ({"tokenizer_class": "MBart50Tokenizer"}, MBART_50),
    ({"tokenizer_class": "NllbTokenizer"}, NLLB),
])  # fmt: skip
def test_fairseq_numbers_four_pieces_first_and_the_languages_last(
    settings: dict[str, str], languages: list[str], tmp_path: Path, model: bytes
) -> None:
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    write(tmp_path / "tokenizer_config.json", settings)
    tokenizer, _ = read_tokenizers(tmp_path, "mbart")
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    n = library.get_piece_size()
    assert [tokenizer.special[i] for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert [tokenizer.id(code) for code in languages] == [n + 1 + i for i in range(len(languages))]
    assert tokenizer.id("<mask>") == tokenizer.vocab_size - 1 == n + 1 + len(languages)
    for line in LINES:
        assert tokenizer.encode(line) == [i + 1 if i else 3 for i in library.encode(line)]


def test_m2m100(tmp_path: Path, model: bytes) -> None:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *reversed(parse(model).pieces[3:])]
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    write(tmp_path / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    tokenizer, _ = read_tokenizers(tmp_path, "m2m_100")
    assert tokenizer.id("__zh__") == len(pieces) + M2M100.index("zh")
    assert tokenizer.decode(tokenizer.encode(LINES[0])) == LINES[0]


def test_the_languages_are_in_the_order_of_the_reference_implementation() -> None:
    m2m100 = pytest.importorskip("transformers.models.m2m_100.tokenization_m2m_100")
    nllb = pytest.importorskip("transformers.models.nllb.tokenization_nllb")
    mbart = pytest.importorskip("transformers.models.mbart50.tokenization_mbart50")
    assert m2m100.FAIRSEQ_LANGUAGE_CODES["m2m100"] == M2M100
    assert nllb.FAIRSEQ_LANGUAGE_CODES == NLLB
    assert mbart.FAIRSEQ_LANGUAGE_CODES == MBART_50


def test_tokenizer_json_comes_first_and_loses_what_adds_special_pieces(tmp_path: Path, model: bytes) -> None:
    """As the reference implementation writes it: special pieces among the model's own, and a post-processor."""
    values = json.loads(parse(model).to_tokenizers_json())
    del values["model"]["tx"]
    values["added_tokens"].append(
        {**values["added_tokens"][0], "id": len(values["model"]["vocab"]), "content": "zh_CN"}
    )
    template = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    values["post_processor"] = {"type": "TemplateProcessing", "single": template, "pair": template,
                                "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}  # fmt: skip
    write(tmp_path / "tokenizer.json", values)
    (tmp_path / "spiece.model").write_bytes(b"not looked at")
    tokenizer, same = read_tokenizers(tmp_path, "t5")
    assert tokenizer is same
    assert tokenizer.id("zh_CN") == tokenizer.vocab_size - 1 == len(values["model"]["vocab"])
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    for line in [*LINES, "a </s> zh_CN <s>"]:
        assert tokenizer.encode(line) == library.encode(line)
        assert tokenizer.decode(tokenizer.encode(line)).strip() == library.decode(library.encode(line)).replace(
            " ⁇ ", ""
        )


def test_a_space_that_was_put_before_a_word_has_no_place() -> None:
    """As T5's tokenizer.json has it: words are split at spaces, and each gets one of its own."""
    vocab = [["<unk>", 0.0], ["▁", -1.0], ["a", -1.0], ["▁b", -1.0], ["中", -1.0]]
    split = [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    ]
    values = {
        **GOOD,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split},
    }
    tokenizer = LibraryTokenizer(json.dumps(values))
    ids, places = tokenizer.encode_with_places("中 a  b")
    assert tokenizer.pieces(ids) == [" ", "中", " ", "a", " b"]
    assert places == [(0, 0), (0, 1), (2, 2), (2, 3), (5, 6)]


def test_bart_is_the_reference_implementations(bart: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.BartTokenizerFast.from_pretrained(bart)
    tokenizer, _ = read_tokenizers(bart, "bart")
    for text in [*LINES, " a  b\n\tc ", "👍🏽", "don't we'll"]:
        assert tokenizer.encode(text) == reference.encode(text, add_special_tokens=False)


# --- damaged files ---

DEEP = "[" * 1_000_000
GOOD: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]},
}


def changed(**model: Any) -> dict[str, Any]:
    return {**GOOD, "model": {**GOOD["model"], **model}}


@pytest.mark.parametrize(
    "values",
    [
        "", "{", "[]", "null", "7", DEEP, '{"model": ' + DEEP, '{"model": ' + "[" * 900 + "]" * 900 + "}", {}, {"model": None},
        {"model": []}, {"model": {}}, {"model": {"type": "WordPiece", "vocab": {}}}, changed(vocab=None), changed(vocab=7),
        changed(vocab=[]), changed(vocab=[["a"]]), changed(vocab=[["<unk>", "x"]]), changed(vocab=[[7, 1.0]]), changed(unk_id=5),
        changed(unk_id=-1), changed(unk_id="0"), changed(unk_id=1 << 60), {**GOOD, "added_tokens": 7}, {**GOOD, "added_tokens": [7]},
        {**GOOD, "added_tokens": [{"id": 1 << 60, "content": "x", "special": True}]}, {**GOOD, "normalizer": {"type": "Nope"}},
        {**GOOD, "added_tokens": [{"id": -1, "content": "x", "special": True}]}, {**GOOD, "pre_tokenizer": 7},
        {**GOOD, "added_tokens": [{"id": "0", "content": "x"}]}, {**GOOD, "decoder": {"type": []}},
        changed(type="BPE", vocab={"a": 0}, merges=[["a", "b"]]), changed(type="BPE", vocab={"a": 1 << 60}, merges=[]),
        changed(type="BPE", vocab={"a": "0"}, merges=[]), changed(type="BPE", vocab={"a": 0}, merges=[["a"]]),
        changed(type="BPE", vocab={"a": 0}, merges=7), changed(type="BPE", vocab={"a": 0}, merges=[], unk_token="b"),
        changed(tx=None), changed(tx={}), changed(tx={"sentencepiece": "?", "special": []}), changed(tx={"sentencepiece": ""}),
        changed(tx={"sentencepiece": "Zm9v", "special": []}), changed(tx={"sentencepiece": 7, "special": []}),
        {**GOOD, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    ],
)  # fmt: skip
def test_one_line_for_a_damaged_tokenizer_json(values: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "tokenizer.json", values)
    with pytest.raises(CheckpointError) as caught:
        LibraryTokenizer.from_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@HEALTH
@given(data=st.data())
def test_values_of_other_kinds_are_read_or_refused(data: st.DataObject, unigram: LibraryTokenizer) -> None:
    values = json.loads(unigram.to_json())
    if data.draw(st.booleans()):
        del values["model"]["tx"]
    at = values
    for _ in range(data.draw(st.integers(0, 3))):
        inner = (
            [key for key, value in at.items() if isinstance(value, dict)]
            if isinstance(at, dict)
            else range(min(len(at), 4))
        )
        if not inner:
            break
        deeper = at[data.draw(st.sampled_from(list(inner)))]
        if not isinstance(deeper, (dict, list)) or not deeper:
            break
        at = deeper
    key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else list(range(len(at)))))
    at[key] = data.draw(
        st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.just([]), st.just({}))
    )
    try:
        tokenizer = LibraryTokenizer(json.dumps(values))
        assert tokenizer.decode(tokenizer.encode("a ﬁ </s>")) is not None
    except CheckpointError as error:
        assert "\n" not in str(error)


def test_one_line_for_a_damaged_folder(tmp_path: Path, model: bytes, bart: Path) -> None:
    def refused(message: str, kind: str = "m2m_100") -> None:
        with pytest.raises(CheckpointError, match=message) as caught:
            read_tokenizers(tmp_path, kind)
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)

    for kind, words in VOCABULARIES.items():
        refused(f"a {kind} model, has no vocabulary: {re.escape(words)} is missing", kind)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model[:1000])
    refused("sentencepiece.bpe.model is not a readable SentencePiece model: ")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    for vocabulary in (
        "{}",
        "[1, 2]",
        '{"a": "b"}',
        '{"a": 1152921504606846976}',
        '{"a": 0}',
        '{"a": -1}',
        '{"a": 0, "b": 1, "c": 0}',
        DEEP,
        "\x00",
    ):
        write(tmp_path / "vocab.json", vocabulary)
        refused("vocab.json")
    (tmp_path / "sentencepiece.bpe.model").unlink()
    write(tmp_path / "vocab.json", (bart / "vocab.json").read_text(encoding="utf-8"))
    write(tmp_path / "merges.txt", "no such\n")
    refused("vocab.json with merges.txt: ", "bart")
    write(tmp_path / "merges.txt", "alone\n")
    refused("vocab.json with merges.txt: ", "bart")
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe")
    refused("tokenizer.json is not UTF-8 at byte 0", "bart")
    (tmp_path / "source.spm").write_bytes(model)
    refused("has source.spm, but target.spm, the vocabulary of its outputs, is missing", "marian")

"""Folders of Hugging Face, read as they are: text for text what the reference implementation's tokenizer and `generate` give."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402

from tx.model.attending import attend  # noqa: E402
from tx.model.checkpoint import load_checkpoint, resolve_model, save_foreign  # noqa: E402
from tx.model.errors import CheckpointError, UsageError  # noqa: E402
from tx.model.foreign import is_foreign  # noqa: E402
from tx.model.languages import M2M100, MBART_50, NLLB  # noqa: E402
from tx.model.pipeline import Translator  # noqa: E402
from tx.model.runtime import Runtime  # noqa: E402
from tx.model.summarizing import Summarizer  # noqa: E402

sentencepiece = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LINES = [
    "The kettle sings while the rain runs down the window.",
    "Nobody had told the two boatmen where the rope was tied.",
    "A letter came on Tuesday, and another one a week later.",
    "水壶在响，雨顺着窗户流下来。",
    "没有人告诉两个船夫绳子系在哪里。",
]
ENGLISH = ["The rope was tied down.", "A letter, and the rain came later", "Nobody sings"]
LENGTH = 8  # pieces of an output: too few for what our search would call a loop
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}


def vocabulary(**options: Any) -> bytes:
    """A small SentencePiece model."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3),
        model_writer=file,
        minloglevel=2,
        vocab_size=120,
        hard_vocab_limit=False,
        **options,
    )
    return file.getvalue()


def pieces_of(content: bytes) -> list[str]:
    library = sentencepiece.SentencePieceProcessor(model_proto=content)
    return [library.id_to_piece(i) for i in range(library.get_piece_size())]


def save_model(folder: Path, config: Any, **generation: Any) -> Any:
    """A model of this configuration with its weights moved far from their start, saved; the settings of its search too."""
    torch.manual_seed(11)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # tables of sinusoids do not
                parameter.add_(torch.randn_like(parameter) * 0.3)
        for name, parameter in model.named_parameters():  # or the source would count for little beside the last piece
            if "encoder_attn.out_proj" in name or "EncDecAttention.o" in name:
                parameter.mul_(4)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    model.generation_config.update(max_length=LENGTH + 1, no_repeat_ngram_size=2, num_beams=1, **generation)
    model.save_pretrained(folder)
    return model


def write(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


def marian(folder: Path) -> tuple[Any, Any]:
    source, target = vocabulary(), vocabulary(model_type="bpe")
    names = sorted({*pieces_of(source)[3:], *pieces_of(target)[3:]})
    ids = {piece: i for i, piece in enumerate(["</s>", "<unk>", *names, "<pad>"])}
    folder.mkdir()
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    write(folder / "vocab.json", ids)
    write(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    pad = ids["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(ids),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
        **SIZES,
    )
    return save_model(folder, config, bad_words_ids=[[pad]]), tokenizer


class Pieces:
    """What a tokenizer does to a text by the rules of its documentation, with the library `sentencepiece`: `shift` is added
    to the library's ids, for three pieces that stand in another order and one before them all."""

    def __init__(self, content: bytes, shift: int, before: list[int], after: list[int]) -> None:
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        self.shift, self.before, self.after = shift, before, after
        self.codes: dict[str, int] = {}

    def __call__(self, text: str, return_tensors: str) -> SimpleNamespace:
        ids = [i + self.shift if i else 3 for i in self.processor.encode(text)]
        return SimpleNamespace(input_ids=torch.tensor([[*self.before, *ids, *self.after]]))

    def decode(self, ids: Any, **settings: Any) -> str:
        size = self.processor.get_piece_size()
        pieces = [i - self.shift for i in ids.tolist()]
        return str(self.processor.decode([i for i in pieces if 3 <= i < size]))


def t5(folder: Path) -> tuple[Any, Any]:
    folder.mkdir()
    content = vocabulary(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(content)
    sizes = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=256, decoder_start_token_id=0, **sizes)
    return save_model(folder, config), Pieces(content, 0, [], [1])


def fairseq(folder: Path, tokenizer_class: str, config_class: str, codes: list[str], source: str) -> tuple[Any, Any]:
    """The piece n of the library is n + 1, after "<s>", "<pad>", "</s>" and "<unk>"; the languages come after all others."""
    folder.mkdir()
    content = vocabulary()
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    write(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer_class})
    first = len(pieces_of(content)) + 1
    size = first + len(codes) + 1  # and "<mask>"
    config = getattr(transformers, config_class)(vocab_size=size, decoder_start_token_id=2, **SIZES)
    tokenizer = Pieces(content, 1, [first + codes.index(source)], [2])
    tokenizer.codes = {code: first + i for i, code in enumerate(codes)}
    return save_model(folder, config, forced_eos_token_id=None), tokenizer


def bart(folder: Path) -> tuple[Any, Any]:
    folder.mkdir()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.train_from_iterator(LINES, trainer)
    model = json.loads(backend.to_str())["model"]
    write(folder / "vocab.json", model["vocab"])
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    tokenizer = transformers.BartTokenizer.from_pretrained(folder)
    config = transformers.BartConfig(vocab_size=len(model["vocab"]), forced_bos_token_id=0, **SIZES)
    return save_model(folder, config, forced_eos_token_id=None, forced_bos_token_id=0), tokenizer


Build = Callable[[Path], tuple[Any, Any]]


def mbart_50(folder: Path) -> tuple[Any, Any]:
    return fairseq(folder, "MBart50Tokenizer", "MBartConfig", MBART_50, "en_XX")


def nllb(folder: Path) -> tuple[Any, Any]:
    return fairseq(folder, "NllbTokenizer", "M2M100Config", NLLB, "eng_Latn")


def m2m100(folder: Path, language_codes: str = "m2m100") -> tuple[Any, Any]:
    """Its own vocabulary: pieces in an order that is not the library's, one of which the SentencePiece model does not have,
    while another that it has is missing; then the codes of the languages, and rows of the embedding that are nothing's."""
    folder.mkdir()
    content = vocabulary()
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    names = [name for name in sorted(pieces_of(content)[3:]) if name != "w"]
    ids = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *names, "▁nowhere"])}
    write(folder / "vocab.json", ids)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "M2M100Tokenizer", "language_codes": language_codes})
    tokenizer = transformers.M2M100Tokenizer(
        str(folder / "vocab.json"),
        str(folder / "sentencepiece.bpe.model"),
        src_lang="en",
        tgt_lang="zh",
        language_codes=language_codes,
    )
    size = len(ids) + len(tokenizer.lang_code_to_id) + 8
    config = transformers.M2M100Config(vocab_size=size, decoder_start_token_id=2, **SIZES)
    return save_model(folder, config, forced_eos_token_id=None), tokenizer


def expected(model: Any, tokenizer: Any, texts: list[str], **settings: Any) -> list[str]:
    """What the reference implementation makes of each text."""
    found = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **settings)
        found.append(tokenizer.decode(out[0], skip_special_tokens=True, clean_up_tokenization_spaces=False).strip())
    return found


def translated(folder: Path, engine: str, **languages: str) -> list[str]:
    results = Translator(folder, engine=engine).translate(ENGLISH, **languages)
    return [result.text for result in results]


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_marian(engine: str, tmp_path: Path) -> None:
    model, tokenizer = marian(tmp_path / "opus-mt-en-de")
    wanted = expected(model, tokenizer, ENGLISH)
    assert len(set(wanted)) == len(ENGLISH) and all(wanted)
    assert translated(tmp_path / "opus-mt-en-de", engine) == wanted
    assert translated(tmp_path / "opus-mt-en-de", engine, source="en", target="de") == wanted


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_t5(engine: str, tmp_path: Path) -> None:
    model, tokenizer = t5(tmp_path / "t5")
    wanted = expected(model, tokenizer, [f"translate English to German: {text}" for text in ENGLISH])
    assert translated(tmp_path / "t5", engine, target="de") == wanted
    with pytest.raises(UsageError, match="Give the target language: de, fr, ro"):
        translated(tmp_path / "t5", engine)
    assert load_checkpoint(tmp_path / "t5" / "model.safetensors").config == load_checkpoint(tmp_path / "t5").config
    with pytest.raises(UsageError, match="does not translate into zh; it translates en → de, en → fr"):
        translated(tmp_path / "t5", engine, target="zh")


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("build, codes", [(mbart_50, ("en_XX", "zh_CN")), (nllb, ("eng_Latn", "zho_Hans"))])
def test_many_languages(build: Build, codes: tuple[str, str], engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    model, tokenizer = build(folder)
    # Its lengths count the start and the forced piece, though the folder says nothing of the latter; so do ours.
    wanted = expected(model, tokenizer, ENGLISH, forced_bos_token_id=tokenizer.codes[codes[1]])
    assert len(set(wanted)) > 1
    wanted = [text or source for text, source in zip(wanted, ENGLISH, strict=True)]  # nothing is left out
    assert translated(folder, engine, source="en", target="zh") == wanted
    assert translated(folder, engine, source=codes[0], target=codes[1]) == wanted
    assert translated(folder, engine, target="zh") == wanted  # the text has no Han characters: a guess
    with pytest.raises(UsageError, match=r"Give the target language: .* and [0-9]+ more"):
        translated(folder, engine)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_m2m100(engine: str, tmp_path: Path) -> None:
    model, tokenizer = m2m100(tmp_path / "m2m100")
    checkpoint = load_checkpoint(tmp_path / "m2m100")
    task = checkpoint.config.tasks["translate:en-zh"]
    assert task.tgt_prefix == (2, tokenizer.get_lang_id("zh")) and not task.src_suffix
    for text in [*LINES, *ENGLISH, "  a  letter\t", "水 壶 ☃", "__zh__", ""]:
        ids = [*task.src_prefix, *checkpoint.tokenizer.encode(text), 2]
        if "__" not in text:  # which the reference takes for a language: here it is text
            assert ids == tokenizer(text).input_ids
        theirs = tokenizer.decode(ids[1:-1], skip_special_tokens=True)
        assert checkpoint.tokenizer.decode(ids[1:-1]).strip() == theirs
    assert task.tgt_prefix[1] not in checkpoint.tokenizer.encode("__zh__")
    assert 3 in checkpoint.tokenizer.encode("www")  # "w" is missing
    forced = tokenizer.get_lang_id("zh")
    first = min(tokenizer.get_lang_id(code) for code in M2M100)
    wanted = []
    for text in ENGLISH:
        ids = torch.tensor([tokenizer(text).input_ids])
        out = model.generate(input_ids=ids, forced_bos_token_id=forced)[0].tolist()
        # The reference spells the codes of languages.
        wanted.append(tokenizer.decode([i for i in out if i < first], skip_special_tokens=True))
    assert len(set(wanted)) == len(ENGLISH)
    assert translated(tmp_path / "m2m100", engine, source="en", target="zh") == wanted
    assert translated(tmp_path / "m2m100", engine, source="__en__", target="__zh__") == wanted


def test_the_other_languages_of_m2m100(tmp_path: Path) -> None:
    _, tokenizer = m2m100(tmp_path / "wmt21", "wmt21")
    tasks = load_checkpoint(tmp_path / "wmt21").config.tasks
    assert len(tasks) == 8 * 7
    for code in ("ha", "is", "zh"):
        assert tasks[f"translate:en-{code}"].tgt_prefix == (2, tokenizer.get_lang_id(code))


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_bart(engine: str, tmp_path: Path) -> None:
    """It translates nothing: its task is a summary."""
    model, tokenizer = bart(tmp_path / "bart")
    runtime = Runtime(tmp_path / "bart", engine=engine)
    checkpoint = runtime.checkpoint
    jobs = [("summarize", tuple(checkpoint.tokenizer.encode(text))) for text in ENGLISH]
    found = runtime.generate(jobs, checkpoint.config.generation, 2)
    # Bytes that form no character are left out.
    wanted = [text.replace("\ufffd", "").strip() for text in expected(model, tokenizer, ENGLISH)]
    assert [checkpoint.tokenizer.decode(found[job].ids).strip() for job in jobs] == wanted
    with pytest.raises(CheckpointError, match="the model bart does not translate"):
        translated(tmp_path / "bart", engine)


@pytest.mark.parametrize("build", [marian, t5, nllb, m2m100, bart])
def test_what_is_saved_as_ours_is_the_same(build: Build, tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    build(folder)
    there = load_checkpoint(folder)
    again = load_checkpoint(save_foreign(there, tmp_path / "ours", dtype="float32"))
    assert again.config == there.config
    assert (again.target_tokenizer is again.tokenizer) == (there.target_tokenizer is there.tokenizer)
    for one, other in ((again.tokenizer, there.tokenizer), (again.target_tokenizer, there.target_tokenizer)):
        assert one.to_json() == other.to_json()
        assert [one.encode(line) for line in LINES] == [other.encode(line) for line in LINES]
    for name in there.tensors:
        assert np.array_equal(again.tensors[name], np.asarray(there.tensors[name]))
    if build is not bart:
        assert translated(tmp_path / "ours", "numpy", target="de") == translated(folder, "numpy", target="de")


def test_attention_of_a_foreign_model(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    found = attend(ENGLISH[0], model=folder)
    assert found.task == "translate:de"
    assert [token.text for token in found.src if token.special] == ["</s>"]
    assert "".join(token.text for token in found.src[:-1]).replace(" ", "") == ENGLISH[0].replace(" ", "")
    assert [token.text for token in found.fed if token.special] == ["<pad>"]
    assert found.output == translated(folder, "numpy")[0]
    assert found.decoder is not None and found.decoder.shape[2:] == (len(found.tgt), len(found.fed))


def test_a_users_model_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "tx" / "models" / "mine"
    folder.parent.mkdir(parents=True)
    marian(folder)
    assert resolve_model("mine") == folder
    with pytest.raises(CheckpointError, match=r"no model 'yours': .* \(there: .*mine\)"):
        resolve_model("yours")


# --- damaged folders ---


def test_what_is_no_model_is_not_taken_for_one(tmp_path: Path) -> None:
    damaged = {
        "[]": "must hold a JSON object",
        "[" * 1_000_000: "config.json is nested too deeply",
        '{"a":' * 1_000_000: "config.json is nested too deeply",
        "\0": "not valid JSON",
        "{}": "config.json does not say a model_type",
    }
    for content in ('{"format": 1}', *damaged):
        (tmp_path / "config.json").write_text(content)
        assert not is_foreign(tmp_path)
        with pytest.raises(CheckpointError, match=damaged.get(content, "not a complete checkpoint")):
            load_checkpoint(tmp_path)
    assert not is_foreign(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vocab.json", "vocab.json is missing"),
        ("target.spm", "has source.spm, but target.spm, the vocabulary of its outputs, is missing"),
        ("source.spm", "a marian model, has no vocabulary: source.spm .* is missing"),
        ("model.safetensors", "is a folder of Hugging Face without weights: there is neither model.safetensors nor"),
        ("config.json", "looks like a folder of Hugging Face, for it has .*, but config.json is missing"),
    ],
)
def test_the_file_that_is_missing_is_named(tmp_path: Path, name: str, words: str) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(folder)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value) and "manifest" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            ("pytorch_model.bin",),
            "looks like a folder of Hugging Face, for it has pytorch_model.bin, but config.json is",
        ),
        (
            ("config.yml", "vocab.ende.spm"),
            "looks like a folder of Marian, for it has config.yml, but its weights, model",
        ),
        (("vocab.ende.spm",), "looks like a folder of Marian, for it has vocab.ende.spm, but its weights, model"),
        ((), "is not a complete checkpoint"),
    ],
)
def test_what_a_folder_looks_like(tmp_path: Path, files: tuple[str, ...], words: str) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"something")
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path)


def test_weights_for_another_library_only(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    with pytest.raises(CheckpointError, match=r"nor an index of their shards \(tf_model.h5 is not read\)"):
        load_checkpoint(folder)


def test_two_pieces_of_one_number(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    ids = json.loads((folder / "vocab.json").read_text())
    write(folder / "vocab.json", {**ids, "▁more": 7})
    with pytest.raises(CheckpointError, match=r"vocab.json is not a vocabulary: .* '▁more' have the same number, 7"):
        load_checkpoint(folder)


def test_a_forced_first_piece(tmp_path: Path) -> None:
    """What the settings force on the output after the start, in a model whose tasks do not."""
    folder = tmp_path / "opus-mt-en-de"
    model, tokenizer = marian(folder)
    change = json.loads((folder / "generation_config.json").read_text())
    write(folder / "generation_config.json", {**change, "forced_bos_token_id": 9})
    checkpoint = load_checkpoint(folder)
    assert checkpoint.config.tasks["translate:de"].tgt_prefix == (checkpoint.config.special.decoder_start, 9)
    assert checkpoint.config.generation.max_length == LENGTH - 1
    for text, found in zip(ENGLISH, translated(folder, "numpy"), strict=True):
        out = model.generate(tokenizer(text, return_tensors="pt").input_ids, forced_bos_token_id=9)[0]
        assert out[1] == 9 and tokenizer.decode(out[2:], skip_special_tokens=True) == found


def test_what_is_not_followed_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    assert load_checkpoint(folder).notes == ()
    values = json.loads((folder / "generation_config.json").read_text())
    write(folder / "generation_config.json", {**values, "do_sample": True})
    (note,) = load_checkpoint(folder).notes
    assert note == f"{folder / 'generation_config.json'}: tx does not follow do_sample, which may change outputs"


def test_a_vocabulary_with_more_pieces_than_the_embedding(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    ids = json.loads((folder / "vocab.json").read_text())
    write(folder / "vocab.json", {**ids, "more": len(ids)})
    with pytest.raises(CheckpointError, match=f"has {len(ids) + 1} pieces, but config.json has room for {len(ids)}"):
        load_checkpoint(folder)


def test_a_vocabulary_with_fewer_pieces_than_the_embedding(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    ids = json.loads((folder / "vocab.json").read_text())
    write(folder / "vocab.json", {piece: i for piece, i in ids.items() if i < len(ids) - 20})
    with pytest.raises(CheckpointError, match=f"has {len(ids) - 20} pieces, but the embedding {len(ids)} rows"):
        load_checkpoint(folder)


def test_a_vocabulary_with_many_holes(tmp_path: Path) -> None:
    """The last piece is there, most before it are not: a part of another's."""
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    ids = {"</s>": 0, "<unk>": 1, **{f"▁{i}": i for i in range(2, 460)}, "<pad>": 899}
    write(folder / "vocab.json", ids)
    with pytest.raises(
        CheckpointError, match="not a vocabulary: a vocabulary of 461 pieces has .*<pad>' as number 899"
    ):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "tokenizer_config.json",
        "vocab.json",
        "target_vocab.json",
        "source.spm",
        "target.spm",
    ],
)
def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "opus-mt-en-de"
    marian(folder)
    with (folder / name).open("ab") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=f"{name} is .*larger than") as caught:
            load_checkpoint(folder)
        assert "\n" not in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


def test_an_mt5_that_names_no_task_is_a_summarizer(tmp_path: Path) -> None:
    folder = tmp_path / "mt5"
    t5(folder)
    values = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", {**values, "model_type": "mt5", "feed_forward_proj": "relu"})
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    safetensors.numpy.save_file({**stored, "lm_head.weight": stored["shared.weight"]}, folder / "model.safetensors")
    checkpoint = load_checkpoint(folder)
    assert list(checkpoint.config.tasks) == ["summarize"]
    (note,) = checkpoint.notes
    assert note.startswith(f"{folder / 'config.json'}: no task is named, so it is taken for a summarizer")
    assert Summarizer(folder, engine="numpy").search("The rope was tied down.").ids


def test_a_special_piece_that_has_no_row(tmp_path: Path) -> None:
    """BART's <mask>, which no text becomes, in some of its folders."""
    folder = tmp_path / "bart"
    bart(folder)
    ids = json.loads((folder / "vocab.json").read_text())
    last = max(ids, key=lambda piece: ids[piece])
    ids["<mask>"], ids[last] = ids[last], ids["<mask>"]
    write(folder / "vocab.json", ids)
    values = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", {**values, "vocab_size": len(ids) - 1})
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    for name, tensor in stored.items():
        if len(ids) in tensor.shape:
            stored[name] = tensor[:, :-1].copy() if name == "final_logits_bias" else tensor[:-1].copy()
    safetensors.numpy.save_file(stored, folder / "model.safetensors")
    summarizer = Summarizer(folder)
    assert summarizer.search("The rope was tied down.").ids

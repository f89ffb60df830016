"""`tx bench`: the command with a small random model, its tables, and the parts it is made of."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tx.cli import bench as command
from tx.cli.main import main
from tx.model.bench import machine, marian, measure, peers, processes, sentences, worker
from tx.model.bench.child import Child
from tx.model.bench.run import Options
from tx.model.config import ModelConfig
from tx.model.errors import TxError, UsageError


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(small_model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("TX_MODEL", str(small_model))
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    monkeypatch.delenv("TX_DEBUG", raising=False)

    def run_tx(*arguments: str) -> Result:
        capsysbinary.readouterr()
        status = main(["bench", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("the bridge\n\nAnna the\n123\nab the bridge Anna\nab the bridge Anna\n", encoding="utf-8")
    return str(path)


def record() -> dict[str, Any]:
    """What a run gives, in figures that are easy to find again."""

    def of(*values: float) -> dict[str, Any]:
        return measure.spread(values)

    batch = {"batch_size": 8, "seconds": of(1.0), "peak_bytes": 130_000_000, "flags": {}}
    speeds = {"sentences_per_second": of(40.0, 50.0, 60.0), "pieces_per_second": of(1234.0)}
    latency = {"engine": "numpy", "seconds": of(0.03), "p90": 0.04, "sentences": 16}
    case = {"name": "numpy", "sentences": 16, "seconds": of(1.0), "latency": latency, "equal": 1.0, "chrf": 100.0}
    case |= {"ratio": of(1.0), "ratio_without_tokenizing": of(1.0), "flags": {"cut": 16}, "peak_bytes": None} | speeds
    other = case | {"name": "ctranslate2", "version": "4.8.5", "how": "int8", "ratio": of(1.5), "equal": 0.5}
    return {
        "machine": machine.describe() | {"load_average": 0.1, "busy": False},
        "model": {"model": "a[b]", "path": "/x", "sizes": {}, "beam": 4, "shortlist": False},
        "settings": {"beam": 4, "sentences": 96, "words": 900, "rounds": 3, "threads": None, "device": "cpu"},
        "start_up": [{"command": "tx translate", "text": "Hi.", "seconds": of(0.2), "peak_bytes": 124_000_000}],
        "latency": [latency],
        "throughput": [{"engine": "torch", "precision": "bf16", **batch, **speeds}],
        "command": [{"jobs": 2, "lines": 96, "lines_per_second": of(70.0)}],
        "against": {
            **{"model": "random", "length": 17, "beam": 4, "threads": 2, "shortlist": False, "batch_size": 8},
            "cases": [case, other],
        },
    }


# --- the command ---


def test_it_measures_a_model(run: Run, lines: str) -> None:
    options = ["--engine", "numpy", "--rounds", "2", "--beam", "1", "--from", "en", "--to", "zh", "--threads", "1"]
    options += ["--batch-size", "2", "--batch-size", "1"]
    status, out, err = run("--file", lines, "--json", "-q", *options)
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["schema"] == "tx-bench/1"
    assert found["settings"] | {"words": 0} == {
        **{"beam": 1, "sentences": 3, "words": 0, "rounds": 2, "threads": 1, "device": "cpu"},
    }
    assert found["model"]["sizes"]["d_model"] == 16
    (cold,) = found["start_up"]
    assert cold["command"] == "tx translate --engine numpy" and len(cold["seconds"]["values"]) == 2
    assert cold["peak_bytes"] > 10_000_000
    (one,) = found["latency"]
    assert len(one["seconds"]["values"]) == 2 * 3 and one["p90"] >= one["seconds"]["median"] > 0
    assert [(case["engine"], case["batch_size"]) for case in found["throughput"]] == [("numpy", 1), ("numpy", 2)]
    for case in found["throughput"]:
        assert len(case["seconds"]["values"]) == 2
        assert case["sentences_per_second"]["values"] == pytest.approx([3 / s for s in case["seconds"]["values"]])
        assert case["pieces_per_second"]["median"] > case["sentences_per_second"]["median"]
        assert 10_000_000 < case["peak_bytes"] < 10**10
    assert found["throughput"][0]["peak_bytes"] <= found["throughput"][1]["peak_bytes"]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--engine", "auto"), 2, "--engine must be one of numpy, torch, both"),
        (("--batch-size", "0"), 2, "--batch-size needs a whole number from 1 to 4096"),
        (("--rounds", "x"), 2, "--rounds needs a whole number"),
        (("--against", "google"), 2, "--against must be one of transformers, ctranslate2, slimt"),
        (("--against", "slimt", "--peer-python", "/nope/python"), 2, "/nope/python cannot be run"),
        (("--precision", "fp7"), 2, "--precision must be one of fp32"),
        (("--precision", "fp32", "--engine", "numpy"), 2, "--precision is for the engine torch"),
        (("--model", "/nope"), 1, "no model '/nope'"),
        (("--file", "/nope"), 1, "cannot read /nope"),
        (("--device", "cuda", "--engine", "numpy"), 2, "cpu only"),
        (("a text",), 2, "unexpected extra argument"),
    ],
)
def test_mistakes(run: Run, options: tuple[str, ...], status: int, words: str) -> None:
    found = run(*options)
    assert (found.status, found.out, found.err.count("\n")) == (status, "", 1)
    assert words in found.err


def test_a_file_without_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("12\n\n")
    found = run("--file", str(tmp_path / "empty"), "--engine", "numpy")
    assert (found.status, found.out) == (2, "")
    assert "nothing to translate" in found.err


def test_help_has_its_examples_first(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert out.index("Examples:") < out.index("Options:")
    assert not [line for line in out.splitlines() if line.endswith("...") and not line.startswith("Usage:")]


def test_a_busy_machine_is_warned_of(run: Run, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "load", lambda: 99.0)
    options = ("--engine", "numpy", "--rounds", "1", "--batch-size", "4", "--beam", "1", "--file", lines)
    found = run(*options)
    assert found.status == 0
    assert found.err.startswith("tx: warning: the load average was 99.0 before this began")
    assert "in batches" in found.out


# --- the tables ---


def test_tables_fit_and_have_all_figures() -> None:
    text = command.report(record())
    lines = text.splitlines()
    assert max(map(len, lines)) <= command.COLUMNS
    assert "a[b], beam 4; 96 sentences, 3 rounds" in lines
    rows = {" ".join(line.split()) for line in lines}
    assert "tx translate, cold 0.200 0.200-0.200 124" in rows
    assert "numpy, loaded 0.030 0.030-0.030 0.040" in rows
    assert "torch bf16 8 50.0 45.0-55.0 1,234 130" in rows
    assert "--jobs 2 96 70.0 70.0-70.0" in rows
    assert "ctranslate2 50.0 0.030 1.50 1.50-1.50 50.0 % 100.0" in rows
    assert "every output has 17 pieces" in text and "ctranslate2 4.8.5: int8" in lines


def test_without_sacrebleu_there_is_no_chrf() -> None:
    found = record()
    assert "chrF" in command.report(found)
    for case in found["against"]["cases"]:
        case["chrf"] = None
    text = command.report(found)
    assert "chrF" not in text and "ctranslate2 50.0 0.030 1.50 1.50-1.50 50.0 %" in {
        " ".join(line.split()) for line in text.splitlines()
    }


def test_whole_commands_compute_as_was_asked() -> None:
    eight = ["--engine", "torch", "--precision", "int8"]
    assert Options().engine_flags == [[], ["--engine", "torch"]]
    assert Options(precisions=["int8"]).engine_flags == [[], eight]
    assert Options(precisions=["int8", "fp32"]).engine_flags == [[], eight[:2]]
    assert Options(engines=["torch"], precisions=["int8"]).engine_flags == [eight]
    assert Options(engines=["numpy"]).engine_flags == [["--engine", "numpy"]]


def test_outputs_of_another_length_are_told() -> None:
    found = record()
    assert "not all" not in command.report(found)
    found["against"]["cases"][0]["flags"] = {"cut": 15, "looped": 1}
    assert "not all of tx's outputs had that length: looped" in command.report(found)


# --- peers ---


def facts(path: Path, own: bool = False) -> dict[str, Any]:
    return {"path": str(path), "own": own, "beam": 4, "sizes": {}}


def test_which_models_can_be_compared_with_what(tmp_path: Path) -> None:
    (tmp_path / "t5").mkdir()
    (tmp_path / "t5" / "config.json").write_text('{"model_type": "t5"}')
    peers.refuse(["transformers", "ctranslate2"], facts(tmp_path, own=True), None)
    peers.refuse(["slimt"], facts(tmp_path), 1)
    for names, path, own, beam, words in (
        (["slimt"], tmp_path, True, None, "slimt runs models of Firefox and Bergamot only"),
        (["slimt"], tmp_path, False, 4, "slimt has no beam search"),
        (["transformers"], tmp_path, False, None, "try --against slimt"),
        (["ctranslate2"], tmp_path / "t5", False, None, "is t5"),
    ):
        with pytest.raises(UsageError, match=words):
            peers.refuse(names, facts(path, own), beam)


def test_a_translator_that_no_python_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.MODULES, "slimt", ("no_such_module",))
    with pytest.raises(TxError, match="slimt is not installed: no Python given has no_such_module; pip install"):
        peers.find(["slimt"], [])
    monkeypatch.setitem(peers.MODULES, "slimt", ("json",))
    assert peers.find(["slimt", "slimt"], []) == [peers.Found("slimt", sys.executable)]


def test_files_of_a_student(tmp_path: Path) -> None:
    for name in ("model.enpt.bin", "vocab.enpt.spm", "lex.50.50.enpt.bin"):
        (tmp_path / name).touch()
    assert peers.student_files(tmp_path)["shortlist"].endswith("lex.50.50.enpt.bin")
    (tmp_path / "model.2.bin").touch()
    with pytest.raises(UsageError, match="has 2 files"):
        peers.student_files(tmp_path)


def test_a_child_that_fails_says_why() -> None:
    code = "import sys; sys.stdin.readline(); sys.exit('no\\nsuch library')"
    with pytest.raises(TxError, match="^x failed: such library$"):
        Child("x", [sys.executable, "-c", code], {})
    code = 'import sys; sys.stdin.readline(); print(\'{"error": "it is broken"}\', flush=True); sys.stdin.read()'
    with pytest.raises(TxError, match="^x: it is broken$"):
        Child("x", [sys.executable, "-c", code], {})


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(TxError, match="no model '/nope'"):
        processes.Command(("translate", "--model", "/nope", "a b")).run()
    run = processes.timed([sys.executable, "-c", "print('done')"])
    assert run.output == "done\n" and run.seconds > 0
    assert run.peak_bytes is None or run.peak_bytes > 1_000_000


# --- the random model ---

SIZES = ModelConfig(120, 120, d_model=16, n_heads=2, d_head=8, d_ff=32, n_encoder_layers=2, n_decoder_layers=2)
VOCABULARY = [("<pad>", -1000.0), ("</s>", -1000.0), *((c, -5.0) for c in "abcdefghijklmnopqrst. "), (" the", -2.0)]


@pytest.fixture
def random_model(tmp_path: Path) -> Path:
    marian.write(tmp_path / "random", SIZES, VOCABULARY)
    return tmp_path / "random"


def test_every_output_of_the_random_model_has_the_length_asked_for(random_model: Path) -> None:
    opening = {"model": str(random_model), "settings": {"engine": "numpy"}, "asked": {}, "warm": ["a b"]}
    translator, known = worker.opened(opening)
    assert known["engine"] == "numpy" and not known["own"] and known["sizes"]["d_ff"] == 32
    assert (
        translator.checkpoint.tokenizer.encode("the cat")
        == [  # the vocabulary is the one that was given
            translator.checkpoint.tokenizer.encode("the")[0],
            *translator.checkpoint.tokenizer.encode("the cat")[1:],
        ]
    )
    for beam in (1, 3):
        request = {"do": "translate", "texts": ["a cat", "the dog. "], "asked": {"beam_size": beam}, "length": 6}
        reply = worker.answer(translator, request)
        assert reply["flags"] == {"cut": 2}  # none ended by itself
        assert reply["seconds"] > 0 and len(set(reply["texts"])) == 2
    assert worker.answer(translator, {"do": "count", "texts": ["⸨3⸩ a"]})["pieces"] > 2


def test_the_random_model_is_the_same_in_transformers(random_model: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(random_model))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(random_model), dtype=torch.float32).eval()
    texts = ["a cat sat on the", "the dog"]
    ids = model.generate(**tokenizer(texts, return_tensors="pt", padding=True), num_beams=1, max_new_tokens=7)
    assert ids.shape == (2, 8)  # and the piece that the decoder starts with
    opening = {"model": str(random_model), "settings": {"engine": "numpy"}, "asked": {}, "warm": ["a b"]}
    translator, _ = worker.opened(opening)
    request = {"do": "translate", "texts": texts, "asked": {"beam_size": 1}, "length": 7}  # too short to go in circles
    ours = worker.answer(translator, request)["texts"]
    assert measure.equal_share(ours, tokenizer.batch_decode(ids, skip_special_tokens=True)) == 1


def test_a_stand_in_has_the_sizes_of_the_model(small_model: Path, tmp_path: Path) -> None:
    opening = {"model": str(small_model), "settings": {"engine": "numpy"}, "asked": {}, "warm": ["the bridge"]}
    _, known = worker.opened(opening)
    assert peers.kind(known) == "own"
    folder = peers.stand_in(known, tmp_path / "made", n_decoder_layers=3)
    _, made = worker.opened(opening | {"model": str(folder)})
    assert peers.kind(made) == "marian"
    for name in ("d_model", "d_ff", "n_heads", "n_encoder_layers", "src_vocab_size"):
        assert made["sizes"][name] == known["sizes"][name], name
    assert made["sizes"]["n_decoder_layers"] == 3


# --- figures ---


def test_rounds_are_interleaved() -> None:
    order = list(measure.interleaved("abc", 3))
    assert order == [(0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "c"), (1, "a"), (2, "c"), (2, "a"), (2, "b")]
    assert list(measure.interleaved([], 2)) == []


def test_figures() -> None:
    assert measure.spread([3.0, 1.0, 2.0]) == {"median": 2.0, "quartiles": [1.5, 2.5], "values": [3.0, 1.0, 2.0]}
    assert measure.quartiles([7.0]) == (7.0, 7.0)
    assert measure.percentile(list(range(1, 11)), 0.9) == 9
    assert measure.percentile([5.0], 0.9) == 5.0
    assert measure.ratios([1.0, 2.0], [3.0, 2.0])["values"] == [3.0, 1.0]
    sizes = [10, 100, 1000]
    assert measure.exponent(sizes, [2 * n**1.5 for n in sizes]) == pytest.approx(1.5)
    assert measure.equal_share(["a  b", "c"], ["a b", "d"]) == 0.5


def test_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["numpy"] == np.__version__ and found["processor"] and found["cores_usable"] >= 1
    assert machine.version("no-such-package") is None
    before = machine.peak_bytes()
    ballast = np.ones(40_000_000, dtype=np.uint8)
    after = machine.peak_bytes()
    assert before and after and ballast.all() and after > before - 1
    assert not machine.is_busy(None) and not machine.is_busy(0.0) and machine.is_busy(1e6)


# --- sentences ---


@pytest.mark.parametrize(("language", "least", "most"), [("en", 9, 9), ("en", 15, 30), ("zh", 5, 60)])
def test_sentences_are_different_and_as_long_as_asked(language: str, least: int, most: int) -> None:
    found = sentences.sentences(200, language, least, most)
    assert len(set(found)) == 200 == len(found)
    assert all(least <= sentences.length(text, language) <= most for text in found)
    assert found == sentences.sentences(200, language, least, most)  # always the same ones
    assert sentences.mixed(5, ["en", "zh"])[1][-1] == "。"


def test_sentences_that_cannot_be_made() -> None:
    with pytest.raises(UsageError, match="only 0 built-in sentences of 1 to 2 words"):
        sentences.sentences(3, "en", 1, 2)

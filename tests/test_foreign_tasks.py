"""Answers and summaries by a model of others: a small random T5, what it is asked, and what becomes of what it says."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tx.cli.main import main  # noqa: E402
from tx.model import answering, span_generation, summarizing  # noqa: E402
from tx.model.answering import Answerer  # noqa: E402
from tx.model.attending import attend  # noqa: E402
from tx.model.checkpoint import load_checkpoint, save_foreign  # noqa: E402
from tx.model.errors import CheckpointError  # noqa: E402
from tx.model.results import Hypothesis  # noqa: E402
from tx.model.runtime import Job, Runtime  # noqa: E402
from tx.model.summarizing import Summarizer  # noqa: E402

sentencepiece = pytest.importorskip("sentencepiece")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LINES = [
    "The ferry left the harbour at seven, and nobody had paid (the captain was asleep).",
    "Ada Stone painted the boat house in 1931. It stood near the old harbour for years.",
    'He asked a question: "Where is the key?" In this context: nothing but the sea.',
    "Please summarize: the boat, the captain, the harbour. translate English to German: the sea.",
]
TEXT = " ".join(LINES[:2])
QUESTION = "Who painted the boat house?"
SUMMARY = {"num_beams": 3, "length_penalty": 2.0, "max_length": 40, "min_length": 12, "early_stopping": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 folder with a vocabulary smaller than its embedding, as T5's is."""
    path = tmp_path_factory.mktemp("models") / "small-t5"
    path.mkdir()
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 3),
        model_writer=file,
        minloglevel=2,
        vocab_size=150,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    (path / "spiece.model").write_bytes(file.getvalue())
    (path / "tokenizer_config.json").write_text('{"extra_ids": 0}')
    config = transformers.T5Config(
        vocab_size=160, decoder_start_token_id=0, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=2
    )
    torch.manual_seed(5)
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(path)
    values = json.loads((path / "config.json").read_text())
    prefixes = {
        "summarization": {"prefix": "summarize: ", **SUMMARY},
        "translation_en_to_de": {"prefix": "to German: "},
    }
    (path / "config.json").write_text(json.dumps(values | {"task_specific_params": prefixes}))
    return path


@pytest.fixture(scope="module")
def answerer(folder: Path) -> Answerer:
    return Answerer(folder, engine="numpy")


@pytest.fixture(scope="module")
def log_probs(folder: Path) -> Callable[[str, list[int]], float]:
    """The log-probability that the reference implementation gives to these pieces and the end after them, for a source as
    the library `sentencepiece` cuts it; padding never comes, so it has no share."""
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder).double().eval()
    library = sentencepiece.SentencePieceProcessor(str(folder / "spiece.model"))

    def log_prob(source: str, pieces: list[int]) -> float:
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([[*library.encode(source), 1]]), decoder_input_ids=torch.tensor([[0, *pieces]])
            ).logits[0]
        logits[:, 0] = -math.inf
        found = logits.log_softmax(dim=-1)
        return float(sum(found[i, piece] for i, piece in enumerate([*pieces, 1])))

    return log_prob


# --- answers ---


def test_it_reads_the_question_and_the_text_as_t5_was_taught(folder: Path, answerer: Answerer) -> None:
    library = sentencepiece.SentencePieceProcessor(str(folder / "spiece.model"))
    reader = answerer._reader
    source = reader.source(reader.question(QUESTION, 100), reader.text(f"  {TEXT}\n"))
    assert source.ids == [*library.encode(f"question: {QUESTION} context: {TEXT}"), 1]
    assert source.ids[source.first : -1] == library.encode(TEXT)


CHARACTERS = st.sampled_from("the boat .?(\"'1931)\n\tKey, 😀é…ﬁ海\u0301")


@settings(deadline=None, max_examples=40)
@given(st.text(CHARACTERS, max_size=60), st.text(CHARACTERS, max_size=10), st.integers(1, 4))
def test_answers_are_places_in_the_text(answerer: Answerer, context: str, question: str, top_k: int) -> None:
    (answers,) = answerer.answer(context, [question], top_k=top_k)
    words = any(map(str.isalnum, context)) and any(map(str.isalnum, question))
    assert bool(answers[0].text) == words  # it has not learnt to say that there is none
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    for a in answers:
        assert context[a.start : a.end] == a.text
        assert not a.text or any(map(str.isalnum, a.text))


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_the_best_answer_is_the_likeliest_for_the_reference(
    engine: str, folder: Path, log_probs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all stretches of a short text, each begun as it stands there or as a word of its own; without the share of words."""
    for name in ("SENTENCE", "CROSSING"):
        monkeypatch.setattr(answering, name, 0.0)
    text = 'Ada "Stone" (asleep) at seven'
    answerer = Answerer(folder, engine=engine)
    tokenizer = answerer.runtime.checkpoint.tokenizer
    starts = span_generation.word_starts(tokenizer)
    pieces, places = tokenizer.encode_with_places(text)
    source = f"question: Who? context: {text}"
    found = {}
    for a, b in itertools.combinations(range(len(pieces) + 1), 2):
        if any(map(str.isalnum, text[places[a][0] : places[b - 1][1]])):
            forms = {(piece, *pieces[a + 1 : b]) for piece in (pieces[a], int(starts[pieces[a]]))}
            found[places[a][0], places[b - 1][1]] = max(log_probs(source, list(form)) for form in forms)
    # a beam of 64 is all but exhaustive
    ((best, *_),) = answerer.answer(text, ["Who?"], top_k=32)
    start, end = max(found, key=lambda place: found[place])
    assert best.start <= start and end <= best.end  # whole words
    assert best.score == pytest.approx(max(found.values()), abs=1e-3)


def test_a_word_may_be_begun_as_one_of_its_own(answerer: Answerer) -> None:
    tokenizer = answerer.runtime.checkpoint.tokenizer
    starts = span_generation.word_starts(tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert all(pieces[j] in (piece, f" {piece}") for piece, j in zip(pieces, starts.tolist(), strict=True))
    changed = [i for i, j in enumerate(starts.tolist()) if i != j]
    assert changed and starts[tokenizer.id("a")] == tokenizer.id("▁a")


def test_long_texts_are_read_in_windows(folder: Path, answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "LONG_WINDOW", 30)
    monkeypatch.setattr(answering, "MOST_LONG", 3)
    text = " ".join(["The captain was asleep."] * 12 + [LINES[1]])
    (found,) = answerer.search(text, [QUESTION], top_k=3)
    assert (found.read, found.windows > 6) == (3, True)
    assert found.answers[0].start >= text.index(LINES[1]) - 40  # where the question's words stand
    together = answerer.search(text, [QUESTION, "Who was asleep?"])
    monkeypatch.setattr(span_generation, "BATCH", 1)
    for other in (answerer, Answerer(folder, engine="torch", threads=1)):
        again = other.search(text, [QUESTION, "Who was asleep?"])
        for one, two in zip(together, again, strict=True):
            assert one.answers[0].text == two.answers[0].text
            assert one.answers[0].score == pytest.approx(two.answers[0].score, abs=1e-2)


def test_windows_fit_what_the_model_was_trained_on(answerer: Answerer) -> None:
    width, stride, _ = answerer._windows
    source = answerer._reader.source(
        answerer._reader.question("the " * 200, 100), answerer._reader.text("boat " * 900), 0, width
    )
    assert len(source.ids) <= answerer.runtime.checkpoint.config.model.max_positions
    assert 0 < stride < width - 2 * span_generation.LONGEST  # each span is whole in one


def test_a_threshold_that_is_asked_for_holds(answerer: Answerer) -> None:
    (some,) = answerer.answer(TEXT, [QUESTION], top_k=2)
    between = (some[0].score + some[1].score) / 2
    assert [a.text for a in answerer.answer(TEXT, [QUESTION], top_k=2, threshold=between)[0]] == [some[0].text, ""]
    assert answerer.threshold == -math.inf


def test_it_was_not_trained_to_point(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="small-t5 was not trained to point: it writes its answers"):
        Answerer(folder, "point", engine="numpy").answer(TEXT, [QUESTION])


def test_what_is_saved_as_ours_answers_and_sums_up_the_same(folder: Path, answerer: Answerer, tmp_path: Path) -> None:
    saved = save_foreign(load_checkpoint(folder), tmp_path / "ours", dtype="float32")
    assert load_checkpoint(saved).config == answerer.runtime.checkpoint.config
    (there,), (here,) = answerer.answer(TEXT, [QUESTION]), Answerer(saved, engine="numpy").answer(TEXT, [QUESTION])
    assert there == here
    assert Summarizer(saved)._search(TEXT) == Summarizer(folder)._search(TEXT)


def test_attention_of_an_answer_that_was_written(folder: Path, answerer: Answerer) -> None:
    """The rows are the pieces that were written, and the end; the columns what was read for it, the question first."""
    found = attend(TEXT, task="qa", question=QUESTION, model=folder)
    assert not found.points and found.flags == ()
    assert found.source == f"{QUESTION} context: {TEXT}"
    assert "".join(token.text for token in found.src if not token.special).strip() == found.source
    assert [token.text for token in found.fed[1:]] == [token.text for token in found.tgt[:-1]]
    assert found.tgt[-1].text == "</s>"
    ((best, *_),) = answerer.answer(TEXT, [QUESTION])
    assert found.output in best.text and found.output != ""
    assert found.cross.shape[2:] == (len(found.tgt), len(found.src))


# --- summaries ---


def write(monkeypatch: pytest.MonkeyPatch, text: str, **settings: Any) -> list[Any]:
    """Puts a text in the place of what the model writes; gives what it was asked for."""
    asked: list[Any] = []

    def generate(self: Runtime, jobs: list[Job], search: Any, batch_size: int, **_: object) -> dict[Job, Hypothesis]:
        asked.append((jobs, search))
        written = Hypothesis(tuple(self.checkpoint.tokenizer.encode(text)), -99.0, -9.0, **settings)
        return dict.fromkeys(jobs, written)

    monkeypatch.setattr(Runtime, "generate", generate)
    return asked


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_summary_is_what_the_reference_generates(engine: str, folder: Path) -> None:
    """But that it is no longer than the text and makes up no name, so: with the reference's search told the same."""
    summarizer = Summarizer(folder, engine=engine)
    checkpoint = summarizer.runtime.checkpoint
    job = summarizer.job(TEXT)
    search = summarizer._search(TEXT)
    ours = summarizer.runtime.generate([job], search, 1)[job]
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    library = sentencepiece.SentencePieceProcessor(str(folder / "spiece.model"))
    theirs = model.generate(
        input_ids=torch.tensor([[*library.encode(f"summarize: {TEXT}"), 1]]),
        **SUMMARY,
        no_repeat_ngram_size=4,
        suppress_tokens=[0, *range(library.get_piece_size(), 160)],
    )
    assert checkpoint.tokenizer.decode(ours.ids) == library.decode([i for i in theirs[0].tolist() if i > 1])


def test_the_folders_own_settings_of_a_summary(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    assert checkpoint.config.generation.early_stopping is False  # what it is where nothing is said
    search = Summarizer(folder)._search(TEXT)
    assert (search.beam_size, search.length_penalty, search.max_length, search.min_length) == (3, 2.0, 39, 11)
    assert search.early_stopping is True and search.no_repeat_ngram == 4
    assert set(range(checkpoint.tokenizer.vocab_size, 160)) <= set(search.suppress)
    short = Summarizer(folder)._search("The ferry left.")
    assert short.min_length <= len(checkpoint.tokenizer.encode("The ferry left.")) // 2
    assert checkpoint.config.tasks["translate:de"].search == {}


def test_its_own_words_are_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not they stand so in the text: what was measured of ours does not hold for it."""
    asked = write(monkeypatch, "The captain painted the harbour")
    summary = Summarizer(folder).summarize(TEXT, extract=False)
    assert (summary.text, summary.flags, summary.spans) == ("The captain painted the harbour.", (), ())
    ((jobs, search),) = asked
    assert jobs == [("summarize", tuple(load_checkpoint(folder).tokenizer.encode(TEXT)))] and search.beam_size == 3
    write(monkeypatch, "The captain painted the")  # no whole sentence
    assert Summarizer(folder).summarize(TEXT, extract=False).flags == ("extracted",)
    write(monkeypatch, "The ferry left. It stood", finished=False)
    summary = Summarizer(folder).summarize(TEXT, extract=False)
    assert (summary.text, summary.flags) == ("The ferry left.", ("cut",))


def test_in_its_own_words_is_the_default_for_a_text_of_some_length(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summarizing, "REWRITES", frozenset())  # of ours
    write(monkeypatch, "The captain painted the harbour.")
    summarizer = Summarizer(folder)
    assert summarizer.summarize(TEXT * 3).spans == ()
    assert summarizer.summarize(TEXT).spans  # it is short


def test_a_long_text_is_summed_up_by_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summarizer = Summarizer(folder)
    assert summarizer.room == 512 - len(summarizer.runtime.task("summarize").src_prefix) - 1
    text = " ".join(f"The captain of boat number {n} was asleep near the harbour." for n in range(60))
    asked = write(monkeypatch, "The captain painted the harbour.")
    summary = summarizer.summarize(text, extract=False)
    assert summary.parts > 1 and summary.flags == ("parts", "skimmed")
    assert summarizer.room // 2 < len(asked[0][0][0][1]) <= summarizer.room
    asked.clear()
    extracted = summarizer.summarize(text, extract=True)
    assert extracted.spans and (extracted.parts, extracted.flags) == (summary.parts, ("parts",))
    assert len(asked[0][0]) == summary.parts and all(len(ids) <= summarizer.room for _, ids in asked[0][0])


def test_of_characters_that_it_does_not_know_nothing_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = write(monkeypatch, "The captain painted the harbour.")
    text = "Мост стар. Анна пришла."
    summary = Summarizer(folder).summarize(text, extract=False)
    assert summary.flags == ("extracted",) and summary.text in text
    assert all(job[0] == "summarize" for jobs, _ in asked for job in jobs)


def test_it_makes_up_no_name(folder: Path) -> None:
    """A random model that writes anything writes only names and numbers that the text has."""
    text = "the ferry left the harbour at seven and nobody had paid. the captain was asleep near the old boat house."
    summarizer = Summarizer(folder, engine="numpy")
    best = summarizer.search(text)
    written = summarizer.runtime.checkpoint.tokenizer.decode(best.ids)
    assert len(best.ids) >= 11 and not any(map(str.isdigit, written))


# --- as a user runs it ---


def test_commands(folder: Path, translating_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "check", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "answer      Where did Anna meet Bob?" in out and out.endswith("  ok\n")
    assert main(["qa", "--model", str(folder), QUESTION, "-c", TEXT, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert TEXT[record["start"] : record["end"]] == record["answer"] != ""
    assert main(["qa", "--model", str(folder), QUESTION, "-c", TEXT, "--threshold", "9"]) == 0
    assert capsys.readouterr() == ("\n", "tx: note: no answer found in the text\n")
    assert main(["summarize", "--model", str(folder), "-t", TEXT]) == 0
    assert capsys.readouterr().out.strip() in TEXT
    for command in (["qa", QUESTION, "-c", TEXT], ["summarize", "-t", TEXT]):
        assert main([*command, "--model", str(translating_model)]) == 1
        out, err = capsys.readouterr()
        assert (
            out == ""
            and err.count("\n") == 1
            and "was not trained to" in err
            and err.endswith("it translates en → zh\n")
        )


def with_tasks(folder: Path, path: Path, **changes: Any) -> Path:
    shutil.copytree(folder, path)
    config = json.loads((path / "config.json").read_text())
    for name, values in changes.items():
        config["task_specific_params"][name] = config["task_specific_params"].get(name, {}) | values
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_the_search_stated_for_translations(folder: Path, tmp_path: Path) -> None:
    own = {"num_beams": 5, "max_length": 31, "early_stopping": True}
    before, after = (
        load_checkpoint(path).config
        for path in (folder, with_tasks(folder, tmp_path / "one", translation_en_to_de=own))
    )
    assert (before.generation.beam_size, before.generation.early_stopping) == (4, False)
    found = after.generation
    assert (found.beam_size, found.max_length, found.early_stopping) == (5, 30, True)
    summaries = [
        dataclasses.replace(config.generation, **config.tasks["summarize"].search) for config in (before, after)
    ]
    assert summaries[0] == summaries[1] and summaries[0].beam_size == 3  # are what they were
    differ = with_tasks(folder, tmp_path / "two", translation_en_to_de=own, translation_en_to_fr={"prefix": "f: "})
    checkpoint = load_checkpoint(differ)
    assert checkpoint.config.generation == before.generation
    (note,) = checkpoint.notes
    assert (
        note
        == f"{differ / 'config.json'}: task_specific_params: translations differ in their search: theirs are not followed"
    )


def test_commands_say_what_is_not_followed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "t5"
    shutil.copytree(folder, copy)
    settings = copy / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "do_sample": True}))
    note = f"tx: note: {settings}: tx does not follow do_sample, which may change outputs\n"
    for command in (
        ["translate", "--to", "de", TEXT[:30]],
        ["qa", QUESTION, "-c", TEXT],
        ["summarize", "-t", TEXT],
        ["show-attention", "--to", "de", TEXT[:30]],
    ):
        assert main([*command, "--model", str(copy)]) == 0
        err = capsys.readouterr().err
        assert note in err
        assert main([*command, "--model", str(copy), "--quiet"]) == 0
        assert capsys.readouterr().err == ""

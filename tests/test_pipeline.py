"""The pipeline: languages, segments, batches and warnings; one result for each text, in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tokenizers
import torch

from tx.model import generation, pipeline
from tx.model.checkpoint import save_checkpoint
from tx.model.config import CheckpointConfig, GenerationConfig, ModelConfig, SpecialIds, Task
from tx.model.errors import CheckpointError, InputError, UsageError
from tx.model.pipeline import MAX_SOURCE_PIECES, Translator, translate
from tx.model.results import Hypothesis
from tx.model.transformer import Transformer

EOS, TO_ZH, TO_EN = 1, 3, 4
PIECES = ["<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>"]
PIECES += [f"<0x{byte:02X}>" for byte in range(256)] + list(" abcdefghijklmnopqrstuvwxyz.,?!你好我们明天见。")
BYTES = 5  # the id of byte 0

Answer = Callable[[list[int]], Hypothesis]  # from a source's pieces, task's prefix and end piece taken off


def save_model(path: Path, **tasks: Task) -> Path:
    """A small random model, its weights large enough for outputs to depend on inputs."""
    vocab = [(piece, -i / 100) for i, piece in enumerate(PIECES)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=2, byte_fallback=True))
    size = tokenizer.get_vocab_size()
    config = CheckpointConfig(
        model=ModelConfig(size, size, 16, 2, 8, 24, n_encoder_layers=2, n_decoder_layers=2),
        special=SpecialIds(pad=0, eos=EOS, decoder_start=0, unk=2),
        generation=GenerationConfig(beam_size=2, max_length_factor=1.0, max_length_constant=4),
        tasks=tasks
        or {
            "translate:zh": Task(src_prefix=(TO_ZH,), source="en", target="zh"),
            "translate:en": Task(src_prefix=(TO_EN,), tgt_prefix=(0, TO_EN), source="zh", target="en"),
            "summarize": Task(),
        },
    )
    torch.manual_seed(3)
    tensors = {name: 3 * tensor for name, tensor in Transformer(config.model).state_dict().items()}
    return save_checkpoint(path, config, tensors, tokenizer.to_str(), "# tiny\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def translator(model: Path) -> Translator:
    return Translator(model, threads=1)


class Search:
    """Takes the place of `generate`: answers each source by a function, and notes what it was given."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.batches: list[list[list[int]]] = []
        self.prefixes: list[tuple[int, ...]] = []
        self.configs: list[GenerationConfig] = []

    def __call__(
        self,
        stepper: object,
        src: Sequence[Sequence[int]],
        *,
        config: GenerationConfig,
        special: SpecialIds,
        prefix: Sequence[int],
    ) -> list[list[Hypothesis]]:
        self.batches.append([list(row) for row in src])
        self.prefixes.append(tuple(prefix))
        self.configs.append(config)
        assert all(row[0] in (TO_ZH, TO_EN) and row[-1] == EOS for row in src)
        return [[self.answer(list(row[1:-1]))] for row in src]


def echo(ids: list[int]) -> Hypothesis:
    return Hypothesis(tuple(ids), -1.0 * (len(ids) + 1), -1.0)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], Search]:
    def install(answer: Answer) -> Search:
        found = Search(answer)
        monkeypatch.setattr(generation, "generate", found)
        return found

    return install


# --- order and batches ---


def test_one_result_for_each_text_in_order(translator: Translator, search: Callable[[Answer], Search]) -> None:
    texts = [
        "we walk home.",
        "",
        "我们明天见。",
        "go.",
        "  12:30 ",
        "你好。",
        "the cat sat on the old mat.",
        "!?",
        "go.",
    ]
    found = search(echo)
    results = translator.translate(texts, batch_size=2)
    assert [r.source for r in results] == texts
    assert [r.text.strip().rstrip(".。") for r in results] == [t.strip().rstrip(".。") for t in texts]
    assert [(r.source_language, r.target_language) for r in results if r.source in ("go.", "你好。")] == [
        ("en", "zh"),
        ("zh", "en"),
        ("en", "zh"),
    ]
    # Each batch holds one task; "go." is searched once; lengths rise within a task.
    assert [{row[0] for row in batch} for batch in found.batches] == [{TO_ZH}, {TO_ZH}, {TO_EN}]
    assert found.prefixes == [(0,), (0,), (0, TO_EN)]
    lengths = [len(row) for batch in found.batches[:2] for row in batch]
    assert len(lengths) == 3 and lengths == sorted(lengths)


def test_results_do_not_depend_on_the_batch(translator: Translator) -> None:
    texts = ["we walk.", "你好，我们明天见。", "a", "the quick fox jumps over the lazy dog.", "我好", "do you see it?"]
    together = translator.translate(texts)
    assert len({r.text for r in together}) > 3  # else the weights say nothing, and this test neither
    for batch_size in (1, 2, 5):
        again = translator.translate(texts, batch_size=batch_size)
        assert [r.text for r in again] == [r.text for r in together]
        assert [r.score for r in again] == pytest.approx([r.score for r in together], abs=1e-4)
    backwards = translator.translate(texts[::-1])[::-1]
    assert [r.text for r in backwards] == [r.text for r in together]
    alone = [translator.translate([text])[0].text for text in texts]
    assert alone == [r.text for r in together]


def test_settings_reach_the_search(translator: Translator, search: Callable[[Answer], Search]) -> None:
    found = search(echo)
    translator.translate(["go."])
    translator.translate(["go."], beam_size=3)
    translator.translate(["go."], settings=GenerationConfig(beam_size=5, no_repeat_ngram=4))
    translator.translate(["go."], settings=GenerationConfig(no_repeat_ngram=4), beam_size=1)
    assert [(c.beam_size, c.no_repeat_ngram) for c in found.configs] == [(2, 0), (3, 0), (5, 4), (1, 4)]


def test_probabilities_are_those_of_one_pass_over_the_finished_pair(translator: Translator) -> None:
    # Beams are reordered, sources padded and dropped when they are done: every row must still be the right one.
    encode = translator.checkpoint.tokenizer.encode
    src = [[TO_ZH, *encode(text), EOS] for text in ("we walk all day.", "a", "go home", "你好我们")]
    stepper, special = translator._stepper, translator.checkpoint.config.special
    config = GenerationConfig(beam_size=4, max_length_factor=1.0, max_length_constant=6, suppress=(BYTES,))
    found = generation.generate(stepper, src, config=config, special=special, prefix=(0, TO_ZH), n_best=4)
    lengths = set()
    for ids, hypotheses in zip(src, found, strict=True):
        for hypothesis in hypotheses:
            out = [*hypothesis.ids, EOS] if hypothesis.finished else list(hypothesis.ids)
            tgt = torch.tensor([[0, TO_ZH, *out]])
            logits = stepper.model(torch.tensor([ids]), None, tgt)[0][0, 1:-1]
            logits[:, [special.pad, BYTES]] = -torch.inf
            log_probs = logits.log_softmax(-1)[torch.arange(len(out)), torch.tensor(out)]
            assert hypothesis.looped or hypothesis.log_prob == pytest.approx(log_probs.sum().item(), abs=1e-3)
            lengths.add(len(out))
    assert len(lengths) > 2


# --- what is copied ---


@pytest.mark.parametrize("text", ["", " ", "\t \u3000", "12:30", "--- !!", "😀 3 × 4 = 12\u3000"])
def test_text_without_letters_is_copied(translator: Translator, text: str) -> None:
    (result,) = translator.translate([text])
    assert (result.text, result.flags, result.score) == (text, ("copied",), 0.0)
    assert not {"checkpoint", "_stepper"} & set(vars(translator))  # the model was not even opened


def test_blank_lines_need_no_torch(model: Path) -> None:
    code = (
        "import sys; from tx.model.pipeline import Translator; t = Translator(sys.argv[1]); "
        "assert [r.text for r in t.translate(['', ' 1 '])] == ['', ' 1 ']; assert t.pairs; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(model)], check=True)


def test_text_in_the_target_language_is_copied(translator: Translator, search: Callable[[Answer], Search]) -> None:
    found = search(echo)
    texts = ["  我们明天见。 ", "see you"]
    to_chinese = translator.translate(texts, target="zh")
    assert (to_chinese[0].text, to_chinese[0].flags, to_chinese[0].score) == (texts[0], ("copied",), 0.0)
    assert to_chinese[1].flags == ()
    assert [r.flags for r in translator.translate(texts, target="en")] == [(), ("copied",)]
    assert len(found.batches) == 2
    # A source that is given is believed.
    assert translator.translate(["我们"], source="en", target="zh")[0].flags == ()


def test_what_the_model_has_no_words_for_stays(translator: Translator, search: Callable[[Answer], Search]) -> None:
    search(lambda ids: Hypothesis((), -0.5, -0.5))
    (result,) = translator.translate(["go home"])
    assert (result.text, result.flags, result.score) == ("go home", ("copied",), -0.5)


# --- languages ---


def test_pairs(translator: Translator) -> None:
    assert translator.pairs == [("en", "zh"), ("zh", "en")]


@pytest.mark.parametrize(
    ("source", "target"), [("en", "fr"), ("fr", "zh"), ("fr", None), (None, "fr"), ("zh", "zh"), ("en", "en")]
)
def test_languages_that_make_no_sense(translator: Translator, source: str | None, target: str | None) -> None:
    for texts in (["hello"], [""]):
        with pytest.raises(UsageError) as caught:
            translator.translate(texts, source=source, target=target)
        assert source == target or "en → zh, zh → en" in str(caught.value)


def test_model_of_one_direction(tmp_path: Path, search: Callable[[Answer], Search]) -> None:
    search(echo)
    path = save_model(tmp_path / "one", **{"translate:zh": Task(src_prefix=(TO_ZH,), source="en", target="zh")})
    translator = Translator(path)
    assert translator.pairs == [("en", "zh")]
    assert translator.translate(["go"])[0].target_language == "zh"
    with pytest.raises(UsageError, match="does not translate zh → en; it translates en → zh"):
        translator.translate(["你好"])


# --- what a reader must know ---


@pytest.mark.parametrize(
    ("finished", "looped", "flags"),
    [(True, False, ()), (False, False, ("cut",)), (False, True, ("looped",))],
)
def test_flags_of_the_search(
    translator: Translator,
    search: Callable[[Answer], Search],
    finished: bool,
    looped: bool,
    flags: tuple[str, ...],
) -> None:
    search(lambda ids: Hypothesis(tuple(ids), -2.0, -0.1, finished=finished, looped=looped))
    assert [r.flags for r in translator.translate(["go home", "", "你好"])] == [flags, ("copied",), flags]


def test_random_model_is_cut_at_the_length_limit(translator: Translator) -> None:
    letters_only = GenerationConfig(max_length=3, suppress=tuple(range(PIECES.index("a"))))
    (result,) = translator.translate(["go home"], settings=letters_only)
    assert (len(result.text), result.flags) == (3, ("cut",))


def test_score_is_the_mean_over_the_pieces_of_all_segments(
    translator: Translator, search: Callable[[Answer], Search]
) -> None:
    found = search(lambda ids: Hypothesis(tuple(ids[:3]), -2.0 if len(ids) < 5 else -8.0, 99.0))
    (result,) = translator.translate(["你好。我们明天见。"])
    assert [len(batch) for batch in found.batches] == [2]  # two sentences are two segments
    assert result.score == pytest.approx((-2.0 - 8.0) / (4 + 4))


def test_no_line_breaks_come_in(translator: Translator, search: Callable[[Answer], Search]) -> None:
    b, breaks = PIECES.index("b"), "a\r\n\u2028\t\x0bb"
    a_to_b = (PIECES.index("a"), *(BYTES + byte for byte in breaks[1:-1].encode()), b, BYTES + 10)
    search(lambda ids: Hypothesis(a_to_b, -1.0, -1.0))
    (result,) = translator.translate(["你好"])
    assert result.text == "a b"


def test_long_sentence_is_split_and_nothing_is_lost(translator: Translator, search: Callable[[Answer], Search]) -> None:
    found = search(echo)
    words = "ab cd ef gh " * 100
    sentences = "Ab cd ef gh. " * 100
    long, short = translator.translate([words.strip(), sentences.strip()])
    assert long.flags == ("split",)
    assert short.flags == ()
    assert long.text.split() == words.split()
    lengths = [len(row) - 2 for batch in found.batches for row in batch]  # the task's prefix and the end piece off
    assert MAX_SOURCE_PIECES - 20 < max(lengths) <= MAX_SOURCE_PIECES


# --- errors ---


def test_requests_out_of_range(translator: Translator, model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="batch_size"):
        translator.translate(["go"], batch_size=0)
    with pytest.raises(UsageError, match="beam_size"):
        translator.translate(["go"], beam_size=0)
    with pytest.raises(UsageError, match="list"):
        translator.translate("go")
    with pytest.raises(UsageError, match="threads"):
        Translator(model, threads=0)
    with pytest.raises(UsageError, match="no device 'abacus'"):
        Translator(model, device="abacus").translate(["go"])
    with pytest.raises(InputError, match="text 2 .* character 3"):
        translator.translate(["go", "on\ud800"])
    with pytest.raises(CheckpointError, match="no model"):
        Translator(tmp_path / "nowhere")


# --- the function ---


def test_function_takes_one_text_or_many(model: Path) -> None:
    texts = ["we walk.", "", "你好"]
    expected = [r.text for r in Translator(model).translate(texts)]
    assert translate(texts, model=model) == expected
    assert translate(texts[0], model=str(model)) == expected[0]
    assert translate([], model=model) == []
    assert translate("go", target="en", model=model) == "go"


def test_function_keeps_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translate("go", model=model)
    monkeypatch.setattr(pipeline, "load_transformer", lambda *args: pytest.fail("loaded again"))
    translate("home", model=str(model))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda t: t.translate(b"hello"), "bytes"),
        (lambda t: t.translate("hello"), "str"),
        (lambda t: t.translate(["hello", None]), "text 2 must be a string, not NoneType"),
        (lambda t: t.translate(["hello"], beam_size="4"), "beam_size must be a whole number from 1 on, not '4'"),
        (lambda t: t.translate(["hello"], beam_size=2.5), "beam_size"),
        (lambda t: t.translate(["hello"], batch_size=0), "batch_size"),
        (lambda t: t.translate(["hello"], source=""), "source must be a language code"),
        (lambda t: Translator(t.path, threads="2"), "threads"),
        (lambda t: pipeline.translate(None), "NoneType"),
        (lambda t: pipeline.translate({"a": 1}), "dict"),
    ],
)
def test_a_wrong_kind_of_argument_is_named(translator: Translator, call: object, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        call(translator)  # type: ignore[operator]

"""The pipeline: languages, segments, batches and warnings; one result for each text, in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch

from tx.model import generation, pipeline, protect, runtime
from tx.model.alternatives import alternatives
from tx.model.checkpoint import save_checkpoint
from tx.model.config import CheckpointConfig, GenerationConfig, ModelConfig, SpecialIds, Task
from tx.model.errors import CheckpointError, InputError, UsageError
from tx.model.pipeline import Translator, translate
from tx.model.plans import MAX_SOURCE_PIECES
from tx.model.results import Hypothesis
from tx.model.transformer import Transformer
from tx.model.word_links import places_of

EOS, TO_ZH, TO_EN = 1, 3, 4
PIECES = ["<pad>", "</s>", "<unk>", "<translate:zh>", "<translate:en>"]
PIECES += [f"<0x{byte:02X}>" for byte in range(256)] + list(" abcdefghijklmnopqrstuvwxyz.,?!你好我们明天见。")
BYTES = 5  # the id of byte 0

Answer = Callable[[list[int]], Hypothesis]  # from a source's pieces, task's prefix and end piece taken off


def save_model(path: Path, more_pieces: str = "", **tasks: Task) -> Path:
    """A small random model, its weights large enough for outputs to depend on inputs."""
    vocab = [(piece, -i / 100) for i, piece in enumerate([*PIECES, *more_pieces])]
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


@pytest.fixture(params=["numpy", "torch"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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
        rules: Sequence[object] = (),
        n_best: int = 1,
    ) -> list[list[Hypothesis]]:
        assert not rules
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


def test_results_do_not_depend_on_the_batch(model: Path, engine: str) -> None:
    translator = Translator(model, threads=1, engine=engine)
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


def test_probabilities_are_those_of_one_pass_over_the_finished_pair(model: Path, engine: str) -> None:
    translator = Translator(model, threads=1, engine=engine)
    # Beams are reordered, sources padded and dropped when they are done: every row must still be the right one.
    encode = translator.checkpoint.tokenizer.encode
    src = [[TO_ZH, *encode(text), EOS] for text in ("we walk all day.", "a", "go home", "你好我们")]
    stepper, special = translator.runtime.stepper(0), translator.checkpoint.config.special
    config = GenerationConfig(beam_size=4, max_length_factor=1.0, max_length_constant=6, suppress=(BYTES,))
    found = generation.generate(stepper, src, config=config, special=special, prefix=(0, TO_ZH), n_best=4)
    lengths = set()
    for ids, hypotheses in zip(src, found, strict=True):
        for hypothesis in hypotheses:
            out = [*hypothesis.ids, EOS] if hypothesis.finished else list(hypothesis.ids)
            tgt = torch.tensor([[0, TO_ZH, *out]])
            logits = translator.runtime._torch_stepper.model(torch.tensor([ids]), None, tgt)[0][0, 1:-1]
            logits[:, [special.pad, BYTES]] = -torch.inf
            log_probs = logits.log_softmax(-1)[torch.arange(len(out)), torch.tensor(out)]
            assert hypothesis.looped or hypothesis.log_prob == pytest.approx(log_probs.sum().item(), abs=1e-3)
            lengths.add(len(out))
    assert len(lengths) > 2


# --- engines ---


def test_little_work_is_for_numpy_and_much_for_torch(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "TORCH_FROM", 40)
    monkeypatch.setattr(runtime, "TORCH_CORES", 1)
    translator = Translator(model, threads=1)
    assert translator.engine == "auto"
    pieces = len(translator.checkpoint.tokenizer.encode("we walk."))
    short, many = ["we walk."], ["we walk.", "we walk. we go.", "you go home."]
    assert pieces * 4 < 40 <= pieces * 5
    assert translator.translate(["", " 1 "])[0].flags == ("copied",)
    assert translator.engine == "auto"  # nothing was computed
    first = translator.translate(short, beam_size=4)
    assert translator.engine == "numpy"
    translator.translate(short * 50, beam_size=4)  # equal segments are translated once
    assert translator.engine == "numpy"
    translator.translate(many, beam_size=2)
    assert translator.engine == "torch"
    assert "_numpy_stepper" not in vars(translator.runtime)
    again = translator.translate(short, beam_size=4)  # what has been loaded stays
    assert translator.engine == "torch"
    assert [r.text for r in again] == [r.text for r in first]
    told = Translator(model, threads=1)
    told.translate(short, more=True)
    assert told.engine == "torch"
    only_numpy = Translator(model, threads=1, engine="numpy")
    only_numpy.translate(many, more=True)
    assert only_numpy.engine == "numpy"
    wide = Translator(model, threads=1)
    wide.translate(short, beam_size=5)
    assert wide.engine == "torch"


@pytest.mark.parametrize(("cores", "threads", "engine"), [(2, None, "numpy"), (8, 1, "numpy"), (8, None, "torch")])
def test_few_cores_are_left_to_numpy(
    model: Path, monkeypatch: pytest.MonkeyPatch, cores: int, threads: int | None, engine: str
) -> None:
    monkeypatch.setattr(runtime, "TORCH_FROM", 1)
    monkeypatch.setattr(runtime, "cores", lambda: cores)
    translator = Translator(model, threads=threads)
    translator.translate(["we walk. we go."], more=True)
    assert translator.engine == engine


def test_the_engine_that_was_asked_for(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["we walk.", "你好，我们明天见。", "the quick fox jumps over the lazy dog."]
    monkeypatch.setattr(runtime, "TORCH_FROM", 1)
    by_numpy = Translator(model, threads=1, engine="numpy")
    numpy_results = by_numpy.translate(texts)
    monkeypatch.setattr(runtime, "TORCH_FROM", 10**9)
    by_torch = Translator(model, threads=1, engine="torch")
    torch_results = by_torch.translate(texts)
    assert (by_numpy.engine, by_torch.engine) == ("numpy", "torch")
    assert [r.text for r in numpy_results] == [r.text for r in torch_results]
    assert [r.score for r in numpy_results] == pytest.approx([r.score for r in torch_results], abs=1e-4)


def test_engines_that_make_no_sense(model: Path) -> None:
    with pytest.raises(UsageError, match="engine must be one of auto, numpy, torch, not 'abacus'"):
        Translator(model, engine="abacus")
    with pytest.raises(UsageError, match="the engine numpy computes on the cpu, not on 'cuda'"):
        Translator(model, engine="numpy", device="cuda")
    assert Translator(model, device="cuda").engine == "torch"


def test_numpy_answers_without_torch(model: Path) -> None:
    code = (
        "import sys; from tx.model.pipeline import Translator; t = Translator(sys.argv[1]); "
        "assert t.translate(['we walk.'])[0].flags != ('copied',); assert t.engine == 'numpy'; "
        "assert not {'torch', 'tokenizers', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(model)], check=True)


THREADS = """
import ctypes, glob, json, os, pathlib, sys
from tx.model.pipeline import Translator
before = dict(os.environ)
t = Translator(sys.argv[1], threads=json.loads(sys.argv[2]), engine=sys.argv[3])
t.translate(["we walk."])
assert dict(os.environ) == before
import numpy
(path,) = glob.glob(str(pathlib.Path(numpy.__file__).parent.parent / "numpy.libs" / "*openblas*"))
blas = ctypes.CDLL(path).scipy_openblas_get_num_threads64_()
print(json.dumps([blas, sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None]))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not list((Path(np.__file__).parent.parent).glob("numpy.libs/*openblas64*")),
    reason="asks the OpenBLAS in NumPy's wheels for Linux",
)
@pytest.mark.parametrize(
    ("threads", "engine", "variables", "expected"),
    [
        (None, "numpy", {}, [1, None]),
        (2, "numpy", {}, [2, None]),
        (2, "numpy", {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, [2, None]),
        (None, "numpy", {"OMP_NUM_THREADS": "2"}, [2, None]),
        (None, "numpy", {"OPENBLAS_NUM_THREADS": "2"}, [2, None]),
        (None, "torch", {}, [1, min(4, torch.get_num_threads())]),
        (2, "torch", {}, [2, 2]),
    ],
)
def test_threads(
    model: Path, threads: int | None, engine: str, variables: dict[str, str], expected: list[int | None]
) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("OpenBLAS takes no more threads than there are processors")
    env = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")} | variables
    command = [sys.executable, "-c", THREADS, str(model), json.dumps(threads), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("variables", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "5"}])
def test_threads_of_torch_wait_asleep_unless_told_otherwise(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "torch.py").write_text("import os; policy = os.environ.get('OMP_WAIT_POLICY')")
    code = (
        "import os; from tx.model.threads import patient_threads; before = dict(os.environ)\n"
        "with patient_threads(): import torch\n"
        "assert dict(os.environ) == before; print(torch.policy)"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))} | variables
    path = os.pathsep.join([str(tmp_path), env.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env | {"PYTHONPATH": path}
    )
    expected = variables.get("OMP_WAIT_POLICY") if variables else "PASSIVE"
    assert done.stdout == f"{expected}\n"


def test_damaged_weights_answer_nothing(tmp_path: Path) -> None:
    path = save_model(tmp_path / "tiny")
    weights = path / "model.safetensors"
    content = weights.read_bytes()
    for damage in (content[:-2] + b"\xff\xff", content[:-2] + bytes([content[-2] ^ 1, content[-1]])):
        weights.write_bytes(damage)  # one of them makes logits that are no numbers, the other goes unnoticed
        for engine in ("numpy", "torch"):
            translator = Translator(path, threads=1, engine=engine)
            for _ in range(2):
                with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: its sha256 differs"):
                    translator.translate(["we walk."])


# --- what is copied ---


@pytest.mark.parametrize("text", ["", " ", "\t \u3000", "12:30", "--- !!", "😀 3 × 4 = 12\u3000"])
def test_text_without_letters_is_copied(translator: Translator, text: str) -> None:
    (result,) = translator.translate([text])
    assert (result.text, result.flags, result.score) == (text, ("copied",), 0.0)
    assert "checkpoint" not in vars(translator.runtime)  # the model was not even opened


def test_blank_lines_need_no_torch(model: Path) -> None:
    code = (
        "import sys; from tx.model.pipeline import Translator; t = Translator(sys.argv[1]); "
        "assert [r.text for r in t.translate(['', ' 1 '])] == ['', ' 1 ']; assert t.pairs; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(model)], check=True)


def test_text_in_the_target_language_is_copied(translator: Translator, search: Callable[[Answer], Search]) -> None:
    found = search(echo)
    texts = ["  我们明天见。 ", "see"]
    to_chinese = translator.translate(texts, target="zh")
    assert (to_chinese[0].text, to_chinese[0].flags, to_chinese[0].score) == (texts[0], ("copied",), 0.0)
    assert to_chinese[1].flags == ("untranslated",)
    assert [r.flags for r in translator.translate(["我好", "see"], target="en")] == [("untranslated",), ("copied",)]
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
    assert [r.flags for r in translator.translate(["Tom", "", "Ann"])] == [flags, ("copied",), flags]


def test_random_model_is_cut_at_the_length_limit(translator: Translator) -> None:
    letters_only = GenerationConfig(max_length=3, suppress=tuple(range(PIECES.index("a"))))
    (result,) = translator.translate(["go home"], settings=letters_only)
    assert (len(result.text), result.flags) == (3, ("cut", "untranslated"))


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
    found = search(lambda ids: echo([*ids, PIECES.index("你")]))
    words = "ab cd ef gh " * 100
    sentences = "Ab cd ef gh. " * 100
    long, short = translator.translate([words.strip(), sentences.strip()])
    assert long.flags == ("split", "untranslated")
    assert short.flags == ("untranslated",)
    assert long.text.replace("你", "").split() == words.split()
    lengths = [len(row) - 2 for batch in found.batches for row in batch]  # the task's prefix and the end piece off
    assert MAX_SOURCE_PIECES - 20 < max(lengths) <= MAX_SOURCE_PIECES


# --- what must come through ---


@pytest.fixture(scope="module")
def slotted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "slotted", more_pieces=protect.SLOTS + "0123456789")


KEEPING = [
    "we pay 1234567890123456789012345678901234567890 now",
    "go to https://example.com/a?b=c, {name}, or me@x.org.",
    "the %s costs $1,234.56 at 10:30",
    "我们在2024年见{0}和{1}。",
    "see 👍🏽 now. and v2.0 too.",
]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_with_slots_keeps_all_of_it(slotted: Path, beam: int, engine: str) -> None:
    results = Translator(slotted, threads=1, engine=engine).translate(KEEPING, beam_size=beam)
    for text, result in zip(KEEPING, results, strict=True):
        wanted = [span.output for span in protect.spans(text)]
        assert wanted
        assert protect.missing(wanted, result.text) == []
        assert not {"lost", *protect.SLOTS} & {*result.flags, *result.text}


def test_the_score_with_slots_is_that_of_the_rules(slotted: Path) -> None:
    translator = Translator(slotted, threads=1, engine="numpy")
    [part] = translator.plan("we pay 12 now").parts
    [best] = translator.best([part], 1)
    (result,) = translator.translate(["we pay 12 now"], beam_size=1)
    assert result.score == pytest.approx(best.log_prob / (len(best.ids) + best.finished))
    assert part.kept == part.wanted == ("12",)
    # by one forced pass, with what the rule forbids taken out
    from tx.model.rules import EachOnce

    out = [*best.ids, EOS] if best.finished else list(best.ids)
    src = [TO_ZH, *part.job[1], EOS]
    stepper, config = translator.runtime.stepper(0), translator.checkpoint.config.generation
    state = stepper.start([src], 1)
    rule = EachOnce([src], translator.slots, EOS, [config.length_limit(len(src))])
    total, fed = 0.0, 0
    for t, piece in enumerate(out):
        logits = np.array(stepper.step(np.array([fed]), state))
        logits[:, 0] = -np.inf
        rule(np.array([out[:t]], dtype=np.int64).reshape(1, -1), np.array([0]), logits)
        total += float(logits[0, piece]) - float(np.log(np.exp(logits.astype(np.float64)).sum()))
        fed = piece
    assert best.log_prob == pytest.approx(total, abs=1e-3)


def test_stretches_that_are_given_come_through(slotted: Path) -> None:
    translator = Translator(slotted, threads=1)
    texts = ["go home to bed. see you.", "plain words"]
    (first, second) = translator.translate(texts, protected=[[(3, 7), (11, 19)], []])
    assert all(word in first.text for word in ("home", "bed.", "see"))
    assert first.flags == second.flags or "lost" not in first.flags
    with pytest.raises(UsageError, match="protected has 1 lists for 2 texts"):
        translator.translate(texts, protected=[[]])


def test_more_than_there_are_slots_for(slotted: Path) -> None:
    numbers = [str(n) for n in range(100, 140)]
    text = "we saw " + ", ".join(numbers) + " there."
    (result,) = Translator(slotted, threads=1).translate([text], beam_size=1)
    assert protect.missing(numbers, result.text) == []
    assert "split" in result.flags and "lost" not in result.flags


def test_an_address_alone_is_copied(translator: Translator, slotted: Path) -> None:
    for each in (translator, Translator(slotted)):
        (result,) = each.translate(["  https://example.com/a \n"])
        assert (result.text, result.flags) == ("  https://example.com/a \n", ("copied",))


def test_letters_of_what_is_kept_do_not_change_their_size(slotted: Path) -> None:
    (result,) = Translator(slotted).translate(["OPEN THE PAGE HTTP://X.COM/Ab NOW"])
    assert "HTTP://X.COM/Ab" in result.text


@pytest.mark.parametrize("text", KEEPING[:3])
def test_what_a_model_without_slots_lost_is_searched_again(
    model: Path, engine: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator(model, threads=1, engine=engine)
    long = GenerationConfig(beam_size=2, max_length_factor=3.0, max_length_constant=20)
    wanted = [span.output for span in protect.spans(text)]
    (result,) = translator.translate([text], settings=long)
    assert protect.missing(wanted, result.text) == [] and "lost" not in result.flags
    # and if that finds nothing, it is said
    monkeypatch.setattr("tx.model.constrained.outputs", lambda runtime, asked, *_: [[] for _ in asked])
    (result,) = translator.translate([text], settings=long)
    assert ("lost" in result.flags) == bool(protect.missing(wanted, result.text))
    assert {"lost", "copied"} & {*result.flags}


def test_what_is_kept_anyway_is_not_searched_again(
    translator: Translator, search: Callable[[Answer], Search], monkeypatch: pytest.MonkeyPatch
) -> None:
    search(echo)
    monkeypatch.setattr("tx.model.constrained.outputs", lambda *_: pytest.fail("searched again"))
    (result,) = translator.translate(["Tom 12"])
    assert result.flags == ()


# --- several, with scores, and aligned ---


def test_alternatives(model: Path, engine: str) -> None:
    translator = Translator(model, threads=1, engine=engine)
    texts = ["we walk. go home. you see.", "a", "", "12"]
    letters_only = GenerationConfig(suppress=tuple(i for i in range(PIECES.index("a")) if i != EOS))
    results = translator.translate(texts, n_best=5, settings=letters_only)
    for result in results:
        found = [text for text, _ in result.alternatives]
        assert result.alternatives[0] == (result.text, result.score)
        assert len(set(found)) == len(found) <= 5
        scores = [score for _, score in result.alternatives[1:]]
        assert scores == sorted(scores, reverse=True)
    assert len(results[0].alternatives) == 5
    assert results[2].alternatives == (("", 0.0),)
    assert translator.translate(["a"])[0].alternatives == ()
    with pytest.raises(UsageError, match="n_best must be 64 at most"):
        translator.translate(["a"], n_best=65)
    with pytest.raises(UsageError, match="n_best"):
        translator.translate(["a"], n_best=0)


def test_alternatives_of_several_sentences() -> None:
    def h(piece: int, score: float) -> Hypothesis:
        return Hypothesis((piece,), 2 * score, score)

    lists = [[h(1, -0.1), h(2, -0.5)], [h(3, -0.2), h(4, -0.3), h(3, -0.4)]]
    found = alternatives(
        lists, lambda chosen: str([c.ids[0] for c in chosen]), lambda chosen: sum(c.score for c in chosen) / 2, 9
    )
    assert [text for text, _ in found] == ["[1, 3]", "[1, 4]", "[2, 3]", "[2, 4]"]
    assert [score for _, score in found] == pytest.approx([-0.15, -0.2, -0.35, -0.4])
    assert len(alternatives(lists, str, lambda chosen: 0.0, 2)) == 2
    assert alternatives([], lambda chosen: "text", lambda chosen: 0.0, 3) == [("text", 0.0)]


def test_alignment(slotted: Path) -> None:
    translator = Translator(slotted, threads=1)
    texts = ["we walk to 12 houses. go home.\n👍 see you.", "", "我们见。你好。", "12:30"]
    for text, result in zip(texts, translator.translate(texts, align=True), strict=True):
        found = result.alignment
        assert found is not None
        for words, whole in ((found.source_words, text), (found.target_words, result.text)):
            assert all(0 <= a < b <= len(whole) for a, b in words)
            assert list(words) == sorted(words)
        assert found.places == [(found.source_words[s], found.target_words[t]) for s, t in found.links]
        assert found.pharaoh == " ".join(f"{s}-{t}" for s, t in found.links)
    assert translator.translate(["go"])[0].alignment is None
    [one] = translator.translate(["12:30"], align=True)
    assert one.alignment.places == [((0, 5), (0, 5))]


def test_places_of_parts() -> None:
    assert places_of(["ab", " ", "c", "d"], "ab c d") == [0, 2, 3, 5]
    assert places_of(["你", " ", "好"], "你好") == [0, None, 1]
    assert places_of([], "") == []


# --- what is left ---


def test_another_script_is_passed_through(translator: Translator, search: Callable[[Answer], Search]) -> None:
    search(lambda ids: echo([*ids, PIECES.index("你")]))
    (result,) = translator.translate(["Привет, мир! Go home."])
    assert result.flags == ("untranslated",)
    assert result.text == "Привет, мир! Go home.你"


@pytest.mark.parametrize(
    ("text", "add", "flags"),
    [
        ("we walk home", "", ("untranslated",)),
        ("we walk home", "x", ("untranslated",)),  # no Chinese in it
        ("we walk home", "你", ("untranslated",)),  # not all of it in Chinese
        ("see tom", "", ("untranslated",)),
        ("see tom", "x", ("untranslated",)),
        ("tom", "", ("untranslated",)),
        ("[tom]", "", ("untranslated",)),
        ("Tom", "", ()),
        ("12 Tom", "", ()),
        ("[NLP]", "", ()),
        ("Tom", "你xy", ("untranslated",)),  # no word of the text
        ("我们明天见。", "", ("untranslated",)),
        ("你好", "", ("untranslated",)),
    ],
)
def test_what_stayed_in_its_language(
    translator: Translator, search: Callable[[Answer], Search], text: str, add: str, flags: tuple[str, ...]
) -> None:
    search(lambda ids: echo([*ids, *(PIECES.index(char) for char in add)]))
    assert translator.translate([text])[0].flags == flags


def test_text_between_tags_that_is_gone(translator: Translator, search: Callable[[Answer], Search]) -> None:
    marks = translator.checkpoint.tokenizer.encode("<b> </b>你")
    search(lambda ids: echo(marks))
    assert translator.translate(["<b>see</b> Tom"])[0].flags == ("lost",)


def test_an_output_of_nothing_but_marks(translator: Translator, search: Callable[[Answer], Search]) -> None:
    search(lambda ids: echo([PIECES.index("!")]))
    assert [r.flags for r in translator.translate(["**see**", "我们"])] == [("lost",), ("lost",)]


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
    monkeypatch.setattr(runtime, "load_checkpoint", lambda *args, **_: pytest.fail("loaded again"))
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

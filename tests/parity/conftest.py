"""Tiny random models of the reference implementation, built offline, with every parameter moved far from its start; and
what it takes to compare one with what it is in our terms."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from tx.model import generation  # noqa: E402
from tx.model.config import GenerationConfig, ModelConfig  # noqa: E402
from tx.model.convert import Converted, convert_tensors  # noqa: E402
from tx.model.errors import CheckpointError  # noqa: E402
from tx.model.families import FAMILIES  # noqa: E402
from tx.model.numpy_engine import NumpyStepper, NumpyTransformer  # noqa: E402
from tx.model.results import Hypothesis  # noqa: E402
from tx.model.torch_engine import TorchStepper  # noqa: E402
from tx.model.transformer import Transformer  # noqa: E402

LENGTH = 150
SAME = 3e-5  # largest difference, in standard deviations of the reference's logits, between fp32 computations
SAME_WEIGHTS = 2e-5  # of attention
DIFFERENT = 0.02  # what a wrong formula must move the logits by

N_PROMPTS = 200
LIMIT = 80  # nothing gets there: the two sides rank differently what the limit cuts
FIRST_TEXT = 8  # pieces from here on are text

SIZES = {  # of all but T5
    "vocab_size": 67,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 160,
}
T5_SIZES = {
    "vocab_size": 67,
    "d_model": 32,
    "d_kv": 6,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}


# --- the reference ---


@torch.no_grad()
def perturb(model: torch.nn.Module, std: float, seed: int) -> None:
    """Adds normal noise to all parameters that are learned, and to the bias of the logits.

    Without it, norms are 1, biases 0 and matrices so small that a wrong formula hardly moves the output.
    """
    noise = torch.Generator().manual_seed(seed)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    bias = getattr(model, "final_logits_bias", None)
    for tensor in parameters if bias is None else [*parameters, bias]:
        tensor += torch.randn(tensor.shape, generator=noise) * std


def build_reference(kind: str, std: float | None = None, seed: int = 0, **settings: Any) -> Any:
    """A random model of the family `kind`: settings of its configuration, `std` and `seed` of the noise. With `untied`,
    its output layer is its own."""
    import transformers

    if std is None:
        std = (
            0.15 if kind in ("t5", "mt5") else 0.3
        )  # T5 does not scale its scores: more, and all attention is on one piece
    untied = settings.pop("untied", False)
    config_class, model_class, sizes = {
        "marian": (transformers.MarianConfig, transformers.MarianMTModel, SIZES),
        "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration, SIZES),
        "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration, SIZES),
        "m2m_100": (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration, SIZES),
        "t5": (transformers.T5Config, transformers.T5ForConditionalGeneration, T5_SIZES),
        "mt5": (transformers.MT5Config, transformers.MT5ForConditionalGeneration, T5_SIZES),
    }[kind]
    torch.manual_seed(seed)
    config = config_class(**{**sizes, **settings}, attn_implementation="eager")
    model = model_class(config).eval()
    if untied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(config.vocab_size, config.d_model) * 0.5)
        config.tie_word_embeddings = kind in ("t5", "mt5")  # where it always is true
    perturb(model, std, seed)
    return model


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def stored_arrays(reference: Any) -> dict[str, Any]:
    """The tensors that the reference stores, as arrays: of an output layer that is tied there is none."""
    tensors = reference.state_dict()
    if reference.lm_head.weight is reference.get_input_embeddings().weight:
        del tensors["lm_head.weight"]
    return arrays(tensors)


def convert(reference: Any) -> Converted:
    return converted(reference.config.model_type, reference)


def converted(kind: str, reference: Any, tensors: Mapping[str, Any] | None = None, **changes: Any) -> Converted:
    """The reference in our terms, with changes to its config.json and perhaps other tensors."""
    values = reference.config.to_dict() | changes
    return convert_tensors(FAMILIES[kind], values, stored_arrays(reference) if tensors is None else tensors)


def refused(
    kind: str, reference: Any, changes: Mapping[str, Any], words: str, tensors: Mapping[str, Any] | None = None
) -> None:
    with pytest.raises(CheckpointError) as caught:
        converted(kind, reference, tensors, **changes)
    assert words in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


# --- the same computation twice ---


# Of fields that are not true or false, and of those that cannot be changed alone, other values. Sizes of vocabularies and
# of the model are those of the tensors.
FLIPS: dict[str, Callable[[ModelConfig], list[dict[str, Any]]]] = {
    "src_vocab_size": lambda c: [],
    "tgt_vocab_size": lambda c: [],
    "d_model": lambda c: [],
    "n_heads": lambda c: [{"n_heads": c.d_head, "d_head": c.n_heads}],
    "d_head": lambda c: [{"n_heads": n, "d_head": c.n_heads * c.d_head // n} for n in (1, 2) if n != c.n_heads],
    "d_ff": lambda c: [{"d_ff": c.d_ff - 8}],
    "n_encoder_layers": lambda c: [{"n_encoder_layers": c.n_encoder_layers - 1}],
    "n_decoder_layers": lambda c: [{"n_decoder_layers": c.n_decoder_layers - 1}],
    "norm": lambda c: [{"norm": "rms" if c.norm == "layer" else "layer"}],
    "norm_eps": lambda c: [{"norm_eps": 0.9}],
    "activation": lambda c: [{"activation": f} for f in ("relu", "gelu", "gelu_tanh", "silu") if f != c.activation],
    "positions": lambda c: [{"positions": p} for p in ("sinusoidal", "learned", "relative") if p != c.positions],
    "sinusoid_layout": lambda c: [
        {"sinusoid_layout": layout}
        for layout in ("interleaved", "halves", "tensor2tensor")
        if layout != c.sinusoid_layout
    ],
    "position_offset": lambda c: [{"position_offset": c.position_offset + 1}],
    "max_positions": lambda c: [{"max_positions": LENGTH}],
    "relative_buckets": lambda c: [{"relative_buckets": c.relative_buckets - 4}],
    "relative_max_distance": lambda c: [{"relative_max_distance": 110}],
    "share_embeddings": lambda c: [{"share_embeddings": not c.share_embeddings, "tgt_vocab_size": c.src_vocab_size}],
    "n_segments": lambda c: [{"n_segments": 3}],
    "pointer_generator": lambda c: [{"pointer_generator": True}] if c.src_vocab_size == c.tgt_vocab_size else [],
    "decoder_autoregression": lambda c: [{"decoder_autoregression": "ssru"}],
}
MEANS_NOTHING = {
    "sinusoidal": ("relative_buckets", "relative_max_distance", "max_positions"),
    "learned": ("sinusoid_layout", "relative_buckets", "relative_max_distance", "max_positions"),
    "relative": ("sinusoid_layout", "position_offset", "max_positions"),
}


def flips(config: ModelConfig, field: str) -> list[dict[str, Any]]:
    """Changes to the configuration by which this field has other values."""
    return FLIPS[field](config) if field in FLIPS else [{field: not getattr(config, field)}]


def our_model(converted: Converted, **changes: Any) -> Transformer:
    """The converted checkpoint as a model; with `changes` to its configuration, as wrong a one as the change makes it."""
    torch.manual_seed(0)  # of parameters that the checkpoint does not have
    model = Transformer(dataclasses.replace(converted.model, **changes))
    tensors = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in converted.tensors.items()}
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if changes:  # what a table of another size has of this one
        tensors = {
            name: tensor[tuple(slice(n) for n in shapes[name])] if name in shapes else tensor
            for name, tensor in tensors.items()
        }
        tensors = {name: tensor for name, tensor in tensors.items() if tensor.shape == shapes.get(name)}
    model.load_state_dict(tensors, strict=not changes)
    if changes.get("logits_bias"):
        torch.nn.init.normal_(model.logits_bias)
    return model.eval()


class Inputs:
    """Two sources of which one is padded, two targets; padding is nowhere else, for some models number what is not."""

    def __init__(self, converted: Converted) -> None:
        random = torch.Generator().manual_seed(3)
        pad = converted.special.pad
        self.src = torch.randint(0, converted.model.src_vocab_size - 1, (2, LENGTH), generator=random)
        self.tgt = torch.randint(0, converted.model.tgt_vocab_size - 1, (2, LENGTH), generator=random)
        self.src[self.src >= pad] += 1
        self.tgt[self.tgt >= pad] += 1
        self.mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 53]])
        self.src[~self.mask] = pad
        self.tgt[:, 0] = converted.special.decoder_start


class Pair:
    """A reference model, its answer to the inputs, and what it is in our terms."""

    def __init__(self, reference: Any) -> None:
        self.reference, self.converted = reference, convert(reference)
        self.inputs = Inputs(self.converted)
        with torch.no_grad():
            self.answer = reference(
                input_ids=self.inputs.src,
                attention_mask=self.inputs.mask.long(),
                decoder_input_ids=self.inputs.tgt,
                use_cache=False,
                output_attentions=True,
            )

    @cached_property
    def maps(self) -> list[tuple[Any, ...]]:
        """The reference's weights of attention: encoder, decoder, cross."""
        return [self.answer.encoder_attentions, self.answer.decoder_attentions, self.answer.cross_attentions]

    def check_maps(self, attentions: Any) -> None:
        ours = attentions.encoder, attentions.decoder, attentions.cross
        for our_maps, maps, queries in zip(ours, self.maps, (self.inputs.mask, None, None), strict=True):
            assert len(our_maps) == len(maps)
            for a, b in zip(our_maps, maps, strict=True):
                a = torch.as_tensor(a).detach()
                if queries is not None:  # where padding looks is of no interest
                    a, b = a.transpose(1, 2)[queries], b.transpose(1, 2)[queries]
                torch.testing.assert_close(a, b, rtol=0, atol=SAME_WEIGHTS)

    def difference(self, logits: Any) -> float:
        """The largest, in standard deviations of the reference's logits."""
        logits = torch.as_tensor(logits)
        if logits.shape != self.answer.logits.shape:
            return math.inf
        return float((logits - self.answer.logits).abs().max() / self.answer.logits.std())

    def check_field(self, field: str) -> None:
        """Any other value of this field of the configuration moves the logits; where the field means nothing, none does."""
        config = self.converted.model
        for changes in flips(config, field):
            difference = self.changed(**changes)
            if field in MEANS_NOTHING[config.positions]:
                assert difference < SAME, changes
            elif {config.activation, changes.get("activation")} == {"gelu", "gelu_tanh"}:
                assert difference > 5 * SAME, changes  # so much alike are the two
            else:
                assert difference > DIFFERENT, changes

    def changed(self, **changes: Any) -> float:
        """How far from the reference our model is with these changes to its configuration."""
        with torch.no_grad():
            logits, _ = our_model(self.converted, **changes)(self.inputs.src, self.inputs.mask, self.inputs.tgt)
        return self.difference(logits)

    def changed_tensor(self, ending: str) -> float:
        """How far from the reference our model is with 1.05 times the first tensor whose name ends so."""
        key = next(key for key in self.converted.tensors if key.endswith(ending))
        tensors = self.converted.tensors | {key: np.asarray(self.converted.tensors[key]) * np.float32(1.05)}
        with torch.no_grad():
            model = our_model(self.converted._replace(tensors=tensors))
            return self.difference(model(self.inputs.src, self.inputs.mask, self.inputs.tgt)[0])

    def check_torch(self) -> None:
        """Logits and attention in one pass, fused, and piece by piece."""
        model, inputs = our_model(self.converted), self.inputs
        explicit, attentions = model(inputs.src, inputs.mask, inputs.tgt, need_weights=True)
        assert self.difference(explicit.detach()) < SAME
        assert attentions is not None
        self.check_maps(attentions)
        with torch.no_grad():
            fused, nothing = model(inputs.src, inputs.mask, inputs.tgt)
            state = model.start(model.encode(inputs.src, inputs.mask), inputs.mask)
            cached = torch.stack([model.step(ids, state) for ids in inputs.tgt.T], dim=1)
        assert nothing is None
        assert self.difference(fused) < SAME
        assert self.difference(cached) < SAME

    def check_numpy(self) -> None:
        """The same with the NumPy engine."""
        model = NumpyTransformer(self.converted.model, self.converted.tensors)
        src, mask, tgt = (x.numpy() for x in (self.inputs.src, self.inputs.mask, self.inputs.tgt))
        logits, attentions = model.forward(src, mask, tgt, need_weights=True)
        assert self.difference(logits) < SAME
        assert attentions is not None
        self.check_maps(attentions)
        state = model.start(model.encode(src, mask), mask)
        cached = np.stack([model.step(ids, state) for ids in tgt.T], axis=1)
        assert self.difference(cached) < SAME

    def check_it_is_worth_comparing(self) -> None:
        """Logits that differ, and attention that is neither flat nor all on one piece."""
        assert self.answer.logits.std() > 1
        for maps in self.maps:
            assert max(weights.max() for weights in maps) > 0.2
            assert max(weights[0, :, -1].max() for weights in maps) > 2 / LENGTH
            assert min(weights[0, :, -1].max(dim=-1).values.mean() for weights in maps) < 0.9


# --- the same search twice ---


ENDING = 0.8  # by so much the logit of the end grows with each piece: a random model hardly knows one


class Ending:
    """A stepper whose model ends more likely from piece to piece. `n_fed` pieces are fed before it writes any."""

    def __init__(self, stepper: Any, eos: int, n_fed: int) -> None:
        self.stepper, self.eos, self.n_fed = stepper, eos, n_fed

    def start(self, src: Any, beams: int, kinds: Any = None) -> Any:
        self.length = -self.n_fed
        return self.stepper.start(src, beams, kinds)

    def step(self, ids: Any, state: Any) -> Any:
        self.length += 1
        logits = self.stepper.step(ids, state)
        logits[:, self.eos] += ENDING * max(0, self.length)
        return logits

    def reorder(self, state: Any, rows: Any) -> Any:
        return self.stepper.reorder(state, rows)


def let_end(reference: Any, eos: int, n_fed: int) -> None:
    """The same for a reference model in `generate`."""

    def end(model: Any, arguments: Any, output: Any) -> None:
        length = output.past_key_values.get_seq_length() - n_fed
        output.logits[:, -1, eos] += ENDING * max(0, length)

    reference.register_forward_hook(end)


class Search:
    """A random reference and what it finds for random prompts; and the same model behind our steppers. The reference and
    PyTorch are in double precision: rounding decides no tie. `before` is a piece that is forced on the output after its start,
    a language for example, or none."""

    def __init__(self, reference: Any, before: Sequence[int] = (), n_prompts: int = N_PROMPTS) -> None:
        self.reference, config = reference, reference.config
        self.before, self.pad, self.eos = list(before), config.pad_token_id, config.eos_token_id
        reference.double()
        self.converted = convert(reference)
        self.start = self.converted.special.decoder_start
        let_end(reference, self.eos, 1 + len(self.before))
        numbers = np.random.default_rng(0)
        sizes = numbers.integers(2, 16, n_prompts)
        self.prompts = [[*numbers.integers(FIRST_TEXT, config.vocab_size, n).tolist(), self.eos] for n in sizes]
        self.steppers = {
            "torch": TorchStepper(our_model(self.converted).double(), self.pad),
            "numpy": NumpyStepper(NumpyTransformer(self.converted.model, self.converted.tensors), self.pad),
        }
        self._found: dict[str, Any] = {}

    def theirs(self, beam: int, **settings: Any) -> list[list[tuple[list[int], float]]]:
        """For each prompt the outputs of all beams: pieces without the start, the end and padding; and their scores (of a
        greedy search zeros).

        What its settings forbid, and padding, it takes out after the softmax; with `renormalize_logits` it makes the rest
        sum to one. (Ours also stops where nothing better can come, which changes no result.)
        """
        key = f"{beam} {settings}"
        if key in self._found:
            return self._found[key]  # type: ignore[no-any-return]
        longest = max(map(len, self.prompts))
        n_fed = 1 + len(self.before)
        several = {"num_return_sequences": beam} if beam > 1 else {}
        forced = {"forced_bos_token_id": self.before[0]} if self.before else {}
        own = {"max_length": LIMIT + n_fed, "forced_eos_token_id": None, **settings}
        own["suppress_tokens"] = [self.pad, *own.get("suppress_tokens", ())]
        if "max_new_tokens" in own:
            del own["max_length"]
        out = self.reference.generate(
            input_ids=torch.tensor([[*ids, *[self.pad] * (longest - len(ids))] for ids in self.prompts]),
            attention_mask=torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in self.prompts]),
            num_beams=beam,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            **several,
            **forced,
            **own,
        )
        scores = [0.0] * len(self.prompts) if beam == 1 else out.sequences_scores.tolist()
        rows = [row[n_fed:] for row in out.sequences.tolist()]
        ended = [row[: row.index(self.eos)] if self.eos in row else row for row in rows]
        assert all(row[1:n_fed] == self.before for row in out.sequences.tolist())
        found = list(zip(ended, scores, strict=True))
        self._found[key] = [found[i : i + beam] for i in range(0, len(found), beam)]
        return self._found[key]  # type: ignore[no-any-return]

    def compare(self, engine: str, theirs: list[Any], **settings: Any) -> None:
        """That ours finds the same, piece for piece, in all beams, with the same scores."""
        config = GenerationConfig(max_length=LIMIT, max_length_factor=0.0, max_length_constant=LIMIT, **settings)
        found = self.ours(engine, config)
        assert [[list(h.ids) for h in hs] for hs in found] == [[ids for ids, _ in hs] for hs in theirs]
        if config.beam_size > 1:
            scores = [[score for _, score in hs] for hs in theirs]
            np.testing.assert_allclose([[h.score for h in hs] for hs in found], scores, atol=1e-4)

    def ours(self, engine: str, config: GenerationConfig) -> list[list[Hypothesis]]:
        """For each prompt the outputs of all beams."""
        return generation.generate(
            Ending(self.steppers[engine], self.eos, 1 + len(self.before)),
            self.prompts,
            config=config,
            special=self.converted.special,
            prefix=[self.start, *self.before] if self.before else (),
            n_best=config.beam_size,
        )

    def check(self, engine: str, length_penalty: float = 1.0) -> None:
        """A beam of four, and a greedy search. Scores are Σ log p divided by the number of pieces, with the end and with
        the piece that was forced, to the power of the penalty."""
        settings = {"length_penalty": length_penalty, "early_stopping": True}
        beam, greedy = self.theirs(4, **settings), self.theirs(1)
        self.compare(engine, beam, beam_size=4, renormalize=False, **settings)
        self.compare(engine, greedy, beam_size=1, renormalize=False)
        # The prompts do matter, there is something to search, and searching finds other outputs.
        best, alone = ([tuple(hs[0][0]) for hs in found] for found in (beam, greedy))
        assert len(set(best)) > N_PROMPTS / 4
        assert np.mean([len(ids) for ids in best]) > 3
        assert sum(a != b for a, b in zip(best, alone, strict=True)) > N_PROMPTS / 10

    def check_stopping(self, length_penalty: float) -> None:
        """A search ends when the reference's ends, whichever way it is told to; and the ways are not the same."""
        outputs = []
        for early_stopping in (True, False, "never"):
            settings = {"length_penalty": length_penalty, "early_stopping": early_stopping}
            found = self.theirs(4, **settings)
            self.compare("torch", found, beam_size=4, renormalize=False, **settings)
            outputs.append([[ids for ids, _ in hs] for hs in found])
        early, as_good, never = outputs
        assert sum(a != b for a, b in zip(early, never, strict=True)) > N_PROMPTS / 20
        assert early != as_good != never or length_penalty < 1


@pytest.fixture(scope="session")
def parity() -> Any:
    """What the files of tests share. `pair(kind, **settings)` and `search(kind, before, **settings)` make each only once."""
    made: dict[str, Any] = {}

    def pair(kind: str, **settings: Any) -> Pair:
        key = f"{kind} {sorted(settings.items())}"
        if key not in made:
            made[key] = Pair(build_reference(kind, **settings))
        return made[key]  # type: ignore[no-any-return]

    def search(kind: str, before: Sequence[int] = (), n_prompts: int = N_PROMPTS, **settings: Any) -> Search:
        key = f"search {kind} {before} {n_prompts} {sorted(settings.items())}"
        if key not in made:
            made[key] = Search(build_reference(kind, **settings), before, n_prompts)
        return made[key]  # type: ignore[no-any-return]

    return SimpleNamespace(
        pair=pair,
        search=search,
        build=build_reference,
        arrays=arrays,
        stored_arrays=stored_arrays,
        convert=convert,
        converted=converted,
        refused=refused,
        our_model=our_model,
        SAME=SAME,
        DIFFERENT=DIFFERENT,
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from more, and lose much where other programs compute too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_loop_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference has none."""
    monkeypatch.setattr(generation, "LOOP_REPEATS", 10**6)

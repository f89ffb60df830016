"""What a model is, as data: the architecture, the special pieces, the tasks and the settings of the search.

Standard library only, so that the command line can read a configuration without importing anything heavy. No layer
branches on a model's name: each architectural fact in which one Transformer differs from another is a field here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .errors import CheckpointError, ConfigError

T = TypeVar("T")

POINTING_HEAD = (
    0  # of the last decoder layer's cross-attention: where it looks is what is copied, or where an answer is
)

_CHOICES = {
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "positions": ("sinusoidal", "learned", "relative"),
    "sinusoid_layout": ("interleaved", "halves", "tensor2tensor"),
    "decoder_autoregression": ("attention", "ssru"),
}


MAX_JSON_BYTES = 10_000_000  # of a file of settings: public ones take less than a tenth


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file. Raises CheckpointError, one line with the file, if it is larger than `most` bytes, of which
    nothing is read then, or cannot be read."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise CheckpointError(f"{path} is no file")
        size, content = path.stat().st_size, b""
        if size <= most:
            with path.open("rb") as file:
                content = file.read(size + 1)  # room is made for as many as are asked for
                if len(content) > size:  # it has grown
                    content += file.read(most - size)
            size = len(content)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if size > most:
        limit = f"{most >> 20} MiB" if most >= 1 << 20 and most % (1 << 20) == 0 else f"{most:,} bytes"
        raise CheckpointError(f"{path} is larger than {limit}, the most that it should need: it has {size:,} bytes")
    return content


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of settings. Raises CheckpointError, one line, where there is none."""
    import json

    content = read_bytes(path, MAX_JSON_BYTES)
    try:
        values = json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise CheckpointError(f"{path} is nested too deeply to be JSON of a model") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(values).__name__}")
    return values


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """Builds the dataclass `cls` from JSON values. Raises ConfigError for a field that is unknown or missing."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise ConfigError(f"unknown field {name!r} in {cls.__name__}")
    for name, f in fields.items():
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ConfigError(f"missing field {name!r} in {cls.__name__}")
    return cls(**values)


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of an encoder-decoder Transformer. The defaults are those of Vaswani et al. 2017, "base".

    Sizes count vocabulary pieces, vector components, heads and layers. `d_head` is independent of `d_model`
    (T5 uses that); the attention layers project from d_model to n_heads · d_head and back.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    d_head: int = 64
    d_ff: int = 2048
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    norm: str = "layer"  # layer | rms
    norm_first: bool = False  # True: x + f(norm(x)); False (2017): norm(x + f(x))
    final_norm: bool = False  # one more norm after the last layer of each stack
    embedding_norm: bool = False  # a norm on the embeddings (BART)
    norm_eps: float = 1e-5
    bias: bool = True  # biases in the linear layers, and shift terms in the norms
    activation: str = "relu"  # relu | gelu | gelu_tanh | silu
    gated_ffn: bool = False  # activation(x W_gate) ⊙ (x W_1) instead of activation(x W_1)
    positions: str = "sinusoidal"  # sinusoidal | learned | relative
    sinusoid_layout: str = "interleaved"  # interleaved (the paper) | halves | tensor2tensor
    position_offset: int = 0  # row of the position table that the first piece uses
    max_positions: int = 1024  # rows of a learned table; sinusoids go on for ever
    relative_buckets: int = 32
    relative_max_distance: int = 128
    scale_attention: bool = True  # divide QKᵀ by √d_head
    scale_embedding: bool = True  # multiply embeddings by √d_model
    scale_logits: bool = False  # multiply the decoder's output by 1/√d_model (T5 v1.0)
    share_embeddings: bool = True  # one table for source and target pieces
    tie_output: bool = True  # the output layer is the target embedding, transposed
    logits_bias: bool = False
    n_segments: int = 0  # kinds of source pieces, for each a vector added to the embedding (Devlin et al. 2019)
    pointer_generator: bool = False  # P = g · P_vocab + (1 − g) · attention to the source (See et al. 2017, eq. 9)
    decoder_autoregression: str = "attention"  # attention | ssru (Kim et al. 2019)

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            kind: Any = {"int": int, "bool": bool, "float": (int, float), "str": str}[str(f.type)]
            if not isinstance(value, kind) or (f.type == "int" and isinstance(value, bool)):
                raise ConfigError(f"{f.name} must be of type {f.type}, not {value!r}")
            if f.name in _CHOICES and value not in _CHOICES[f.name]:
                raise ConfigError(f"{f.name} must be one of {', '.join(_CHOICES[f.name])}, not {value!r}")
            if f.type == "int" and value < (0 if f.name in ("position_offset", "n_segments") else 1):
                raise ConfigError(f"{f.name} is out of range: {value}")
        if not 0 < self.norm_eps < 1:
            raise ConfigError(f"norm_eps must be between 0 and 1, not {self.norm_eps}")
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError("share_embeddings needs src_vocab_size = tgt_vocab_size")
        if self.pointer_generator and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError("pointer_generator needs one vocabulary: src_vocab_size = tgt_vocab_size")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(f"sinusoidal positions need an even d_model, not {self.d_model}")
        if self.positions == "relative" and (self.relative_buckets % 4 or self.relative_max_distance < 4):
            raise ConfigError("relative positions need relative_buckets divisible by 4 and a distance of at least 4")


@dataclass(frozen=True)
class SpecialIds:
    """Ids of the pieces that are not text. `decoder_start` is fed first unless a task has its own prefix."""

    pad: int
    eos: int
    decoder_start: int
    bos: int | None = None
    unk: int | None = None

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value is None and f.name in ("bos", "unk"):
                continue
            if type(value) is not int or value < 0:
                raise ConfigError(f"special id {f.name} must be a piece number, not {value!r}")


@dataclass(frozen=True)
class Task:
    """How one task is put to the model: pieces before the source, pieces that the decoder is fed first, and words
    for people. `source` and `target` are language codes ("en", "zh"); empty where the task has none. `src_suffix` are
    pieces after the source's end piece, `separator` those between a question and the text that may answer it. `search` are
    the fields of GenerationConfig that are others for a summary than for the rest of what the model does."""

    src_prefix: tuple[int, ...] = ()
    tgt_prefix: tuple[int, ...] = ()
    source: str = ""
    target: str = ""
    src_suffix: tuple[int, ...] = ()
    separator: tuple[int, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("src_prefix", "tgt_prefix", "src_suffix", "separator"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.search:
            from_dict(GenerationConfig, self.search)


@dataclass(frozen=True)
class AllPairs(Mapping[str, Task]):
    """Translation from each of `sources` to each other of `targets`, language codes with the ids of the pieces that say
    so: tasks "translate:SOURCE-TARGET", made when they are asked for, since there may be 40,000 of them.

    The decoder is fed `start` and the target's piece. The source's piece stands before the text, or, with `code_last`, after
    its end piece.
    """

    sources: Mapping[str, int]
    targets: Mapping[str, int]
    start: tuple[int, ...] = ()
    code_last: bool = False

    NAME = "translate:*"  # in place of all their names, in `config.json`

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", tuple(self.start))
        for ids in (self.sources.values(), self.targets.values(), self.start):
            if not all(type(i) is int and i >= 0 for i in ids):
                raise ConfigError(f"the tasks {self.NAME} must have piece numbers, not {list(ids)[:3]}")

    def pairs(self) -> dict[tuple[str, str], str]:
        """The name of the task for each pair of source and target."""
        return {(s, t): f"translate:{s}-{t}" for s in self.sources for t in self.targets if s != t}

    def __getitem__(self, name: str) -> Task:
        kind, _, pair = name.partition(":")
        source, _, target = pair.partition("-")
        if kind != "translate" or source == target or source not in self.sources or target not in self.targets:
            raise KeyError(name)
        code = (self.sources[source],)
        return Task(
            src_prefix=() if self.code_last else code,
            tgt_prefix=(*self.start, self.targets[target]),
            source=source,
            target=target,
            src_suffix=code if self.code_last else (),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.pairs().values())

    def __len__(self) -> int:
        return len(self.sources) * len(self.targets) - len(self.sources.keys() & self.targets.keys())


@dataclass(frozen=True)
class GenerationConfig:
    """Settings of the search.

    A hypothesis may have up to `max_length_factor` · (source pieces) + `max_length_constant` pieces, and never more
    than `max_length`. Hypotheses are ranked by Σ log p / lengthᵅ with α = `length_penalty`, the length counting the
    end piece. `early_stopping` says when a beam of K has searched enough: when K have finished (True); when the worst of
    the K best that have is as good as the best live one (False); when nothing better can come ("never"; module
    generation). `no_repeat_ngram` = n forbids that any n pieces occur twice (0: off), `source_no_repeat_ngram` that n
    pieces of the source do in the output. `suppress` lists ids that are never produced, `suppress_first` those that do not
    come first. `repetition_penalty` makes pieces that were produced less likely, `source_reward` those of the source more
    likely (1: off; module rules). What is forbidden is taken out before the softmax, so that the rest sums to one, or with
    `renormalize` false after it. `temperature`, `top_k` and `top_p` are for sampling only.
    """

    beam_size: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = True
    max_length_factor: float = 2.0
    max_length_constant: int = 10
    max_length: int = 512
    min_length: int = 0
    no_repeat_ngram: int = 0
    source_no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    source_reward: float = 1.0
    suppress: tuple[int, ...] = ()
    suppress_first: tuple[int, ...] = ()
    renormalize: bool = True
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("suppress", "suppress_first"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        checks = {
            "beam_size": 1 <= self.beam_size <= 64,
            "early_stopping": type(self.early_stopping) is bool or self.early_stopping == "never",
            "max_length_factor": self.max_length_factor >= 0,
            "max_length_constant": self.max_length_constant >= 0,
            "max_length": self.max_length >= 1,
            "min_length": self.min_length >= 0,
            "no_repeat_ngram": self.no_repeat_ngram >= 0,
            "source_no_repeat_ngram": self.source_no_repeat_ngram >= 0,
            "repetition_penalty": self.repetition_penalty > 0,
            "source_reward": self.source_reward > 0,
            "renormalize": type(self.renormalize) is bool,
            "temperature": self.temperature > 0,
            "top_k": self.top_k >= 0,
            "top_p": 0 < self.top_p <= 1,
        }
        for name, good in checks.items():
            if not good:
                raise ConfigError(f"{name} is out of range: {getattr(self, name)}")

    def length_limit(self, src_length: int) -> int:
        """The most pieces, end piece included, that a hypothesis for `src_length` source pieces may have."""
        return min(self.max_length, int(self.max_length_factor * src_length) + self.max_length_constant)


@dataclass(frozen=True)
class CheckpointConfig:
    """Everything of a checkpoint but its weights and its tokenizer: the content of `config.json`."""

    model: ModelConfig
    special: SpecialIds
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    name: str = ""
    format: int = 1

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CheckpointConfig:
        """Builds the configuration from parsed JSON. Raises ConfigError, naming the field at fault."""
        if values.get("format") != 1:
            raise ConfigError(f"unknown checkpoint format {values.get('format')!r}: this version of tx reads format 1")
        known = {f.name for f in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown field {name!r} in the checkpoint's configuration")
        for name in ("model", "special"):
            if not isinstance(values.get(name), Mapping):
                raise ConfigError(f"the checkpoint's configuration has no section {name!r}")
        return cls(
            model=from_dict(ModelConfig, values["model"]),
            special=from_dict(SpecialIds, values["special"]),
            generation=from_dict(GenerationConfig, values.get("generation", {})),
            tasks=_tasks(values.get("tasks", {})),
            name=str(values.get("name", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """The same as plain dictionaries and lists, ready for `json.dump`."""
        values = dataclasses.asdict(dataclasses.replace(self, tasks={}))
        if isinstance(self.tasks, AllPairs):
            values["tasks"] = {
                AllPairs.NAME: {f.name: getattr(self.tasks, f.name) for f in dataclasses.fields(AllPairs)}
            }
        else:
            values["tasks"] = {name: dataclasses.asdict(task) for name, task in self.tasks.items()}
        return values


def _tasks(values: Mapping[str, Any]) -> Mapping[str, Task]:
    if set(values) == {AllPairs.NAME}:
        return from_dict(AllPairs, values[AllPairs.NAME])
    return {name: from_dict(Task, task) for name, task in values.items()}

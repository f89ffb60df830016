"""What a model is, in words: its tasks, and its architecture as someone knows it who has read "Attention Is All You Need"."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model.config import ModelConfig, Task
from .text_io import one_line

MOST_COLUMNS = 100
LABEL = 12  # columns
PAIRS = 6  # from so many directions on, languages are listed instead
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU (by tanh)", "silu": "SiLU"}
LAYOUTS = {
    "interleaved": "a sine and a cosine in turn, as in the paper",
    "halves": "all sines, then all cosines",
    "tensor2tensor": "all sines, then all cosines, spaced as in Tensor2Tensor",
}
SENTENCES = {
    "en": "Where can I buy a ticket for the train tomorrow?",
    "zh": "明天的火车票在哪里可以买到？",
    "de": "Wo kann ich morgen eine Fahrkarte für den Zug kaufen?",
    "fr": "Où est-ce que je peux acheter un billet de train pour demain ?",
    "es": "¿Dónde puedo comprar un billete de tren para mañana?",
    "pt": "Onde posso comprar um bilhete de comboio para amanhã?",
    "it": "Dove posso comprare un biglietto del treno per domani?",
    "nl": "Waar kan ik een treinkaartje voor morgen kopen?",
    "ru": "Где я могу купить билет на поезд на завтра?",
    "ja": "明日の電車の切符はどこで買えますか？",
}
LONG_CODES = {
    "eng": "en",
    "zho": "zh",
    "cmn": "zh",
    "deu": "de",
    "fra": "fr",
    "spa": "es",
    "por": "pt",
    "ita": "it",
    "nld": "nl",
    "rus": "ru",
    "jpn": "ja",
}


def sentence_for(language: str) -> str:
    """A sentence in the language of a code ("zh", "zho_Hans", "zh_CN", "zh-Hant"), or "" where there is none."""
    code = language.strip("_<>").replace("-", "_").split("_")[0].lower()
    return SENTENCES.get(LONG_CODES.get(code, code), "")


# --- tasks ---


def abilities(tasks: Mapping[str, Task], most: int = 10**6) -> str:
    """ "translate en ↔ zh; summarize; answer questions". Of many languages, `most` are named."""
    told = []
    pairs = [(task.source, task.target) for name, task in tasks.items() if name.startswith("translate:")]
    if len(pairs) > PAIRS:
        codes = sorted({code for pair in pairs for code in pair if code})
        more = f" and {len(codes) - most} more" if len(codes) > most else ""
        told.append(f"translate among {len(codes)} languages: {', '.join(codes[:most])}{more}")
    elif pairs:
        told.append(f"translate {', '.join(_directions(pairs))}")
    told += ["summarize"] * ("summarize" in tasks) + ["answer questions"] * ("answer" in tasks)
    return "; ".join(told) or "no task that tx knows"


def _directions(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """ "en ↔ zh" where both directions are there, else "en → zh"."""
    told = []
    for i, (source, target) in enumerate(pairs):
        if (target, source) in pairs[:i]:
            continue
        arrow = "↔" if (target, source) in pairs and source else "→"
        told.append(f"{source or 'any language'} {arrow} {target}")
    return told


# --- architecture ---


def architecture(c: ModelConfig) -> list[tuple[str, str]]:
    """What it is made of, in rows of a name and words."""
    feed_forward = f"a feed-forward network {c.d_model:,} → {c.d_ff:,} → {c.d_model:,} with {ACTIVATIONS[c.activation]}"
    feed_forward += ", gated" if c.gated_ffn else ""
    heads = f"{c.n_heads} heads of d_k = {c.d_head}"
    own = "masked self-attention" if c.decoder_autoregression == "attention" else "a recurrent unit (SSRU)"
    rows = [
        ("encoder", f"{_layers(c.n_encoder_layers)} of self-attention ({heads}) and {feed_forward}"),
        ("decoder", f"{_layers(c.n_decoder_layers)} of {own}, attention to the encoder's output, and the same network"),
        (
            "attention",
            f"softmax(QKᵀ{'/√d_k' if c.scale_attention else ''})V{'' if c.scale_attention else ', not scaled'}",
        ),
        ("norms", _norms(c)),
        ("positions", _positions(c)),
        ("embeddings", _embeddings(c)),
        ("output", _output(c)),
    ]
    if not c.bias:
        rows.append(("biases", "none"))
    if c.n_segments:
        rows.append(
            ("kinds", f"a vector for each of {c.n_segments} kinds of source pieces is added to their embeddings")
        )
    return rows


def _layers(n: int) -> str:
    return f"{n} layer{'s' if n > 1 else ''}"


def _norms(c: ModelConfig) -> str:
    kind = "layer norm" if c.norm == "layer" else "RMS norm"
    where = "before each sublayer" if c.norm_first else "after each sublayer and its residual, as in the paper"
    more = [", on the embeddings"] * c.embedding_norm + [", after the last layer"] * c.final_norm
    return f"{kind} {where}{''.join(more)}; ε = {c.norm_eps:g}"


def _positions(c: ModelConfig) -> str:
    if c.positions == "sinusoidal":
        return f"sinusoids, {LAYOUTS[c.sinusoid_layout]}"
    if c.positions == "learned":
        return f"learned vectors for {c.max_positions:,} places"
    return f"a learned bias for each head and distance ({c.relative_buckets} buckets, up to {c.relative_max_distance})"


def _embeddings(c: ModelConfig) -> str:
    if c.share_embeddings:
        tables = f"one table for source and target, {c.src_vocab_size:,} pieces"
    else:
        tables = f"a table of {c.src_vocab_size:,} pieces for the source, one of {c.tgt_vocab_size:,} for the target"
    return f"d_model = {c.d_model:,}; {tables}" + ("; times √d_model" if c.scale_embedding else "")


def _output(c: ModelConfig) -> str:
    told = "the target embedding, transposed" if c.tie_output else "a matrix of its own"
    told += ", with a bias" if c.logits_bias else ""
    told += ", after 1/√d_model" if c.scale_logits else ""
    return told + ("; or a copy of a source piece (pointer-generator)" if c.pointer_generator else "")


def parts(config: ModelConfig) -> dict[str, int]:
    """Parameters of each part; a table that is used twice counts once, as an embedding."""
    from ..model.tensors import tensor_shapes

    counts = dict.fromkeys(("embeddings", "encoder", "decoder", "output"), 0)
    for name, shape in tensor_shapes(config).items():
        size = 1
        for n in shape:
            size *= n
        first = name.split(".")[0]
        part = "embeddings" if "embedding.weight" in name else first if first in counts else "output"
        counts[part] += size
    return counts


# --- layout ---


class Rows(NamedTuple):
    """Lines of a name and a text, which goes on under itself."""

    rows: Sequence[tuple[str, str]]

    def text(self) -> str:
        return "".join(_filled(f"  {name.ljust(LABEL - 1)} ", text, LABEL + 2) for name, text in self.rows)


def paragraph(text: str, indent: int = 0) -> str:
    """The text in lines no longer than the terminal's."""
    return _filled(" " * indent, text, indent + 2)


def _filled(start: str, text: str, indent: int) -> str:
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, MOST_COLUMNS))
    lines = textwrap.wrap(
        text,
        width - 1,
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines or [start.rstrip()]) + "\n"


def plain(text: str) -> str:
    """What others wrote, on one line and without what could move a terminal's cursor."""
    return one_line(text)


def megabytes(size: int) -> str:
    """A size in bytes, in the decimal unit that suits it."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"


def millions(n: int) -> str:
    """A number of parameters."""
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n:,}"

"""A random model in the shape and the format of Marian (OPUS-MT) at Hugging Face, of any size: one that tx, transformers
and CTranslate2 all run, as it is or converted.

Its outputs mean nothing. They never end by themselves, the end piece being all but impossible: every one has exactly as
many pieces as it may have, in every program, greedily or in a beam, so that all do the same work. The weights are so
large that the next piece depends on everything, and hardly an output goes in circles.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..config import ModelConfig

SPACE = "\u2581"  # ▁, SentencePiece's space
NEVER = -1e4  # in the bias of the logits
# By how much the sublayers are larger than at Glorot's start. Sharp scores, so that a step looks at few pieces and another
# at others; and a feed-forward network that outweighs the residual, whatever attention adds to it.
SCORE_GAIN, ATTENTION_GAIN, FEED_FORWARD_GAIN = 2.0, 0.7, 4.0
UNKNOWN, CONTROL = 2, 3  # kinds of pieces in SentencePiece's files


def write(folder: Path, sizes: ModelConfig, vocabulary: Sequence[tuple[str, float]], seed: int = 1) -> None:
    """Writes the model to a folder, which is made. Of `sizes` the layers, heads, d_model, d_ff, activation and the source
    vocabulary's size count. `vocabulary` are pieces and their logarithms of probability; it is filled up, or cut."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    n = sizes.src_vocab_size
    pieces = _pieces(vocabulary, n)
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": n,
        "decoder_vocab_size": n,
        "d_model": sizes.d_model,
        "encoder_layers": sizes.n_encoder_layers,
        "decoder_layers": sizes.n_decoder_layers,
        **{f"{stack}_attention_heads": sizes.n_heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": sizes.d_ff for stack in ("encoder", "decoder")},
        "activation_function": {"silu": "swish", "gelu_tanh": "gelu_new"}.get(sizes.activation, sizes.activation),
        "max_position_embeddings": 512,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": True,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "dropout": 0.0,
    }
    special = {"eos_token_id": 0, "pad_token_id": n - 1, "decoder_start_token_id": n - 1, "forced_eos_token_id": None}
    _dump(folder / "config.json", config | special)
    _dump(folder / "generation_config.json", special | {"num_beams": 4, "max_length": 512})
    _dump(folder / "vocab.json", {piece: i for i, (piece, _) in enumerate(pieces)})
    _dump(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "MarianTokenizer", "model_max_length": 512, "source_lang": "en", "target_lang": "xx"},
    )
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(_sentencepiece(pieces[:-1]))
    save_file(dict(_tensors(sizes, seed)), folder / "model.safetensors", metadata={"format": "pt"})


def _dump(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def _pieces(vocabulary: Sequence[tuple[str, float]], n: int) -> list[tuple[str, float]]:
    """The end piece, the unknown one, those of the vocabulary that stand for text, such as no text has, and padding."""
    text: dict[str, float] = {}
    for piece, score in vocabulary:
        if score > -500 and not piece.startswith("<"):
            text.setdefault(piece.replace(" ", SPACE), score)
    text.pop("</s>", None)
    pieces = [("</s>", 0.0), ("<unk>", 0.0), *text.items()][: n - 1]
    pieces += [(f"{SPACE}\u2e28{i}\u2e29", -300.0) for i in range(n - 1 - len(pieces))]
    return [*pieces, ("<pad>", 0.0)]


def _tensors(sizes: ModelConfig, seed: int) -> Iterator[tuple[str, Any]]:
    """Names as Hugging Face has them, and float32 arrays [out, in]."""
    import numpy as np

    random = np.random.default_rng(seed)
    d, d_ff, n = sizes.d_model, sizes.d_ff, sizes.src_vocab_size

    def normal(*shape: int, std: float) -> Any:
        return (std * random.standard_normal(shape, dtype=np.float32)).astype(np.float32)

    bias = normal(1, n, std=0.1)
    bias[0, [0, 1, n - 1]] = NEVER  # the end piece, the unknown one, padding
    yield "final_logits_bias", bias
    shared = normal(n, d, std=1 / math.sqrt(d))
    shared[n - 1] = 0  # Marian begins with a vector of zeros, for which the padding stands here
    yield "model.shared.weight", shared
    for stack, depth, attentions in (
        ("encoder", sizes.n_encoder_layers, ("self_attn",)),
        ("decoder", sizes.n_decoder_layers, ("self_attn", "encoder_attn")),
    ):
        for i in range(depth):
            layer = f"model.{stack}.layers.{i}"
            for attention in attentions:
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    gain = ATTENTION_GAIN if name in ("v_proj", "out_proj") else SCORE_GAIN
                    yield f"{layer}.{attention}.{name}.weight", normal(d, d, std=gain / math.sqrt(d))
                    yield f"{layer}.{attention}.{name}.bias", normal(d, std=0.1)
            yield f"{layer}.fc1.weight", normal(d_ff, d, std=math.sqrt(2 / d))
            yield f"{layer}.fc1.bias", normal(d_ff, std=0.1)
            # Rows without a mean: what a ReLU gives has one, and would add the same vector everywhere.
            second = normal(d, d_ff, std=FEED_FORWARD_GAIN / math.sqrt(d_ff))
            yield f"{layer}.fc2.weight", second - second.mean(1, keepdims=True)
            yield f"{layer}.fc2.bias", normal(d, std=0.1)
            for norm in (*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"):
                scale = 1 + normal(d, std=0.1)
                if (stack, i, norm) == ("decoder", depth - 1, "final_layer_norm"):
                    # Signs by chance: else what is left of the last piece's embedding makes the same piece the next.
                    scale *= np.where(random.random(d) < 0.5, -1, 1).astype(np.float32)
                yield f"{layer}.{norm}.weight", scale
                yield f"{layer}.{norm}.bias", normal(d, std=0.1)


# --- the file of SentencePiece: protocol buffers, ModelProto of sentencepiece_model.proto ---


def _sentencepiece(pieces: Sequence[tuple[str, float]]) -> bytes:
    """A unigram model of these pieces that changes nothing of a text but its spaces."""
    out = bytearray()
    for piece, score in pieces:
        kind = {"<unk>": UNKNOWN, "</s>": CONTROL}.get(piece)
        message = _field(1, piece.encode()) + b"\x15" + struct.pack("<f", score)  # 2, a float
        out += _field(1, message + (b"\x18" + _varint(kind) if kind else b""))  # 3, a number
    trainer = b"\x18" + _varint(1)  # 3: model_type, unigram
    for field, value in ((40, 1), (41, -1), (42, 0), (43, -1)):  # ids of unk, bos, eos, pad in this file
        trainer += _varint(field << 3) + _varint(value % 2**64)
    return bytes(out + _field(2, trainer) + _field(3, _field(1, b"identity")))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])

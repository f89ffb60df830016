"""How many multiply-adds a sentence takes, and how many weights a step has to read: the floor under every time.

For a source of S pieces (the end piece and the task's counted), T steps of the decoder (the pieces written and the end
piece), K hypotheses, d = d_model, i = n_heads · d_head, m = 2 matrices of the feed-forward network (3 if it is gated), C columns
of the output layer (the vocabulary, or a shortlist) and N_e, N_d layers:

    encoder     N_e · (S · (4·d·i + m·d·d_ff) + 2·S²·i)       projections and feed-forward; QKᵀ and the weighted sum of V
    cross keys  N_d · S · 2·d·i                               once a sentence: K and V of the memory
    decoder     K · T · N_d · (4·d·i + 2·d·i + m·d·d_ff)      self-attention (SSRU: 2·d² for 4·d·i), Q and output of
                                                              cross-attention, feed-forward
    attention   K · N_d · (i·T·(T+1) + 2·T·S·i)               to the t pieces so far (not with SSRU), and to the memory
    output      K · T · d · C
    pointer     K · T · (d + S)                               the gate, and what is copied from each source piece

Biases, norms, activations, the softmax and the search are left out: they are of lower order, and what they take shows as
the distance from the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config import ModelConfig


@dataclass(frozen=True)
class Work:
    """Multiply-adds, by part."""

    encoder: float = 0.0
    cross_keys: float = 0.0
    decoder: float = 0.0
    attention: float = 0.0
    output: float = 0.0
    pointer: float = 0.0

    @property
    def total(self) -> float:
        return self.encoder + self.cross_keys + self.decoder + self.attention + self.output + self.pointer

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def multiply_adds(config: ModelConfig, src: int, steps: int, beam: int = 1, columns: int | None = None) -> Work:
    """Those of one sentence: S = `src`, T = `steps`, K = `beam`, C = `columns` (None: the whole vocabulary)."""
    d, inner = config.d_model, config.n_heads * config.d_head
    feed_forward = (3 if config.gated_ffn else 2) * d * config.d_ff
    recurrent = config.decoder_autoregression == "ssru"
    rows, layers = beam * steps, config.n_decoder_layers
    own = 2 * d * d if recurrent else 4 * d * inner
    looks = 2 * steps * src * inner + (0 if recurrent else inner * steps * (steps + 1))
    return Work(
        encoder=config.n_encoder_layers * (src * (4 * d * inner + feed_forward) + 2 * src * src * inner),
        cross_keys=layers * src * 2 * d * inner,
        decoder=rows * layers * (own + 2 * d * inner + feed_forward),
        attention=beam * layers * looks,
        output=rows * d * (columns or config.tgt_vocab_size),
        pointer=rows * (d + src) if config.pointer_generator else 0.0,
    )


def weights_read(config: ModelConfig, columns: int | None = None) -> tuple[int, int]:
    """How many weights the encoder reads once a batch, and a step of the decoder once a batch (keys and values of the memory
    are computed with those of the first)."""
    work = multiply_adds(config, 1, 1, 1, columns)
    scores = config.n_encoder_layers * 2 * config.n_heads * config.d_head  # the only part of it that reads no weights
    return int(work.encoder - scores + work.cross_keys), int(work.decoder + work.output)


def shapes(config: ModelConfig, columns: int | None = None) -> dict[str, tuple[int, int]]:
    """The matrices [in, out] that the work is done with, by where they stand."""
    d, inner = config.d_model, config.n_heads * config.d_head
    return {
        "projection": (d, inner),
        "feed-forward, in": (d, config.d_ff),
        "feed-forward, out": (config.d_ff, d),
        "output": (d, columns or config.tgt_vocab_size),
    }

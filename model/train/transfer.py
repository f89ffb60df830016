"""Starting weights from real English-Portuguese students: `python -m tx.model.train transfer --help`.

A Marian student that reads English and writes Portuguese becomes a model that reads and writes English and Chinese:
its layers are kept; each of our pieces starts where the piece, or what it means, lies in the student's embedding space.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..attention import MultiHeadAttention, causal_mask
from ..checkpoint import check_tensors
from ..config import ModelConfig
from ..errors import CheckpointError, ConfigError
from ..layers import SSRU, DecoderLayer
from ..marian_bin import read_marian_binary
from ..tokenizer import Tokenizer
from ..transformer import Transformer
from .align import TranslationTable, symmetrised_table
from .data import read_rows

Array = npt.NDArray[np.float32]
STUDENT_EOS = 0  # `</s>` in the vocabulary of every Marian student
HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
PARENTHESES = re.compile(r"\([^)]*\)|\b(?:to|fig\.|lit\.) ")

_ATTENTION = {"Wq": "q_proj.weight", "bq": "q_proj.bias", "Wk": "k_proj.weight", "bk": "k_proj.bias",
              "Wv": "v_proj.weight", "bv": "v_proj.bias", "Wo": "o_proj.weight", "bo": "o_proj.bias"}  # fmt: skip
_FFN = {"W1": "ffn.w_1.weight", "b1": "ffn.w_1.bias", "W2": "ffn.w_2.weight", "b2": "ffn.w_2.bias",
        "ffn_ln_scale": "ffn_norm.weight", "ffn_ln_bias": "ffn_norm.bias"}  # fmt: skip
_SSRU = {"W": "self_attn.w.weight", "Wf": "self_attn.w_f.weight", "bf": "self_attn.w_f.bias",
         "ffn_ln_scale": "self_attn_norm.weight", "ffn_ln_bias": "self_attn_norm.bias"}  # fmt: skip


def student_tensors(arrays: dict[str, Array]) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The arrays of a Marian student (`read_marian_binary`) under our names, and the architecture they need.

    The student's decoder starts from a zero embedding: one row of zeros, the last, is added to the vocabulary for it.
    """
    vocab_size, d_model = arrays["Wemb"].shape
    tensors = {"src_embedding.weight": torch.zeros(vocab_size + 1, d_model), "logits_bias": torch.zeros(vocab_size + 1)}
    tensors["src_embedding.weight"][:-1] = torch.from_numpy(arrays["Wemb"])
    tensors["logits_bias"][:-1] = torch.from_numpy(arrays["decoder_ff_logit_out_b"][0])
    tensors["logits_bias"][-1] = -1e9
    n_layers = {}
    for stack in ("encoder", "decoder"):
        n_layers[stack] = sum(1 for name in arrays if name.startswith(stack) and name.endswith("_ffn_W1"))
        for layer in range(n_layers[stack]):
            names = {f"ffn_{k}": v for k, v in _FFN.items()}
            for marian, ours in (("self", "self_attn"), ("context", "cross_attn")):
                names.update({f"{marian}_{k}": f"{ours}.{v}" for k, v in _ATTENTION.items()})
                names.update(
                    {f"{marian}_Wo_ln_scale": f"{ours}_norm.weight", f"{marian}_Wo_ln_bias": f"{ours}_norm.bias"}
                )
            names.update({f"rnn_{k}": v for k, v in _SSRU.items()})
            for marian, ours in names.items():
                array = arrays.get(f"{stack}_l{layer + 1}_{marian}")
                if array is not None:  # linear layers keep [out, in], vectors lose their leading 1
                    value = array.T if ours.endswith("weight") and array.shape[0] > 1 else array[0]
                    tensors[f"{stack}.layers.{layer}.{ours}"] = torch.from_numpy(value.copy())
    config = ModelConfig(
        src_vocab_size=vocab_size + 1, tgt_vocab_size=vocab_size + 1, d_model=d_model, n_heads=8, d_head=d_model // 8,
        d_ff=arrays["encoder_l1_ffn_W1"].shape[1], n_encoder_layers=n_layers["encoder"],
        n_decoder_layers=n_layers["decoder"], norm_eps=1e-9, sinusoid_layout="tensor2tensor", logits_bias=True,
        decoder_autoregression="ssru",
    )  # fmt: skip
    return config, tensors


def load_student(path: str | Path) -> Transformer:
    """A Marian student as a Transformer in eval mode. Raises CheckpointError if the file is not one."""
    arrays = read_marian_binary(path)
    try:
        config, tensors = student_tensors(arrays)
    except (KeyError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a student with tied embeddings and SSRU: {error}") from error
    model = Transformer(config)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    check_tensors({name: tuple(tensor.shape) for name, tensor in tensors.items()}, expected, path)
    model.load_state_dict(tensors)
    return model.eval()


@torch.inference_mode()
def student_translate(
    model: Transformer, sources: Sequence[Sequence[int]], batch: int = 256
) -> Iterator[tuple[int, list[int]]]:
    """Greedy translations, (number of the source, target ids without the end), in order of length. The sources end in
    `</s>`, id 0."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for first in range(0, len(order), batch):
        rows = order[first : first + batch]
        longest = max(len(sources[i]) for i in rows)
        src = torch.zeros(len(rows), longest, dtype=torch.long)
        for r, i in enumerate(rows):
            src[r, : len(sources[i])] = torch.tensor(sources[i])
        mask = torch.arange(longest)[None] < torch.tensor([len(sources[i]) for i in rows])[:, None]
        state = model.start(model.encode(src, mask), mask)
        ids = torch.full((len(rows),), model.config.tgt_vocab_size - 1)
        alive = list(rows)
        outputs: dict[int, list[int]] = {i: [] for i in rows}
        for _ in range(2 * longest + 5):
            ids = model.step(ids, state).argmax(-1)
            for i, piece in zip(alive, ids.tolist(), strict=True):
                if piece:
                    outputs[i].append(piece)
            going = ids.nonzero()[:, 0]
            if len(going) < len(ids):
                alive = [alive[r] for r in going.tolist()]
                if not alive:
                    break
                state.reorder(going)
                ids = ids[going]
        yield from outputs.items()


# -- decoder self-attention in place of SSRU ---------------------------------------------------------------------------


def distil_self_attention(
    teacher: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    seconds: float,
    lr: float = 2e-3,
) -> dict[str, Tensor]:
    """Self-attention layers that do in the teacher's decoder what its SSRU layers do: tensors named as in a decoder
    whose `decoder_autoregression` is attention.

    Each layer is trained by itself, on the inputs that it has in the teacher, to the mean squared error of its output
    (after the norm). `sources` end in `</s>`; `targets` do not. The teacher's parameters are frozen by this.
    """
    teacher.requires_grad_(False)
    config = ModelConfig(**{**vars(teacher.config), "decoder_autoregression": "attention"})
    teacher_layers = ssru_layers(teacher)
    layers = [MultiHeadAttention(config) for _ in teacher_layers]
    for ours, (_, ssru) in zip(layers, teacher_layers, strict=True):
        ours.v_proj.weight.data.copy_(ssru.w.weight)
        ours.v_proj.bias.data.zero_()
        ours.o_proj.weight.data.copy_(torch.eye(config.d_model))
        ours.o_proj.bias.data.zero_()
    parameters = [p for layer in layers for p in layer.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    order = sorted(range(len(sources)), key=lambda i: (len(targets[i]), len(sources[i])))
    starts = list(range(0, len(order), 128))
    rng = np.random.default_rng(1)
    begun, step, errors = time.monotonic(), 0, [0.0] * len(layers)
    while time.monotonic() - begun < seconds:
        first = starts[int(rng.integers(len(starts)))]
        rows = order[first : first + 128]
        src, src_mask = padded([sources[i] for i in rows], 0)
        start = teacher.config.tgt_vocab_size - 1
        tgt, tgt_mask = padded([[start, *targets[i]] for i in rows], 0)
        inputs, outputs = _ssru_pairs(teacher, src, src_mask, tgt)
        causal = causal_mask(tgt.shape[1], tgt.shape[1])[None, None]
        done = min(1.0, (time.monotonic() - begun) / seconds)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 50) * (1 - 0.97 * done)
        total = torch.zeros(())
        for i, (ours, (theirs, _)) in enumerate(zip(layers, teacher_layers, strict=True)):
            h, _ = ours(inputs[i], ours.keys_values(inputs[i]), causal)
            error = ((theirs.self_attn_norm(inputs[i] + h) - outputs[i])[tgt_mask] ** 2).mean()
            errors[i] = 0.98 * errors[i] + 0.02 * float(error.detach() / outputs[i][tgt_mask].var())
            total = total + error
        optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(
                f"distil step {step}: unexplained variance a layer {[round(e, 4) for e in errors]}",
                file=sys.stderr,
                flush=True,
            )
    return {
        f"decoder.layers.{i}.self_attn.{name}": value.detach().clone()
        for i, layer in enumerate(layers)
        for name, value in layer.named_parameters()
    }


def ssru_layers(model: Transformer) -> list[tuple[DecoderLayer, SSRU]]:
    """The decoder's layers and the SSRU in each."""
    found = []
    for layer in model.decoder.layers:
        assert isinstance(layer, DecoderLayer) and isinstance(layer.self_attn, SSRU)
        found.append((layer, layer.self_attn))
    return found


@torch.no_grad()
def _ssru_pairs(teacher: Transformer, src: Tensor, src_mask: Tensor, tgt: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What goes into each SSRU layer of the teacher, and what comes out of it and its norm: [B, T, d_model] each."""
    state = teacher.start(teacher.encode(src, src_mask), src_mask)
    x = teacher.decoder.embed(tgt, teacher.tgt_table)
    inputs, outputs = [], []
    for (layer, ssru), cross_kv in zip(ssru_layers(teacher), state.cross_kv, strict=True):
        inputs.append(x)
        outputs.append(layer.self_attn_norm(x + ssru(x, None)[0]))
        x = layer(x, None, cross_kv, None, state.memory_mask)[0]
    return inputs, outputs


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Rows of ids side by side, [B, longest], and the mask that is True on ids."""
    longest = max(len(r) for r in rows)
    ids = torch.full((len(rows), longest), pad)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids, torch.arange(longest)[None] < torch.tensor([len(r) for r in rows])[:, None]


# -- where our pieces start --------------------------------------------------------------------------------------------


def _rescaled(vectors: Array, norms: Array) -> Array:
    """Means of many vectors are short; each gets the length that the vectors it is made of have on average."""
    length = np.linalg.norm(vectors, axis=1)
    return np.asarray(vectors * (norms / np.maximum(length, 1e-6))[:, None], np.float32)


def expected(table: TranslationTable, vectors: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The expected translation of each source piece in the space of `vectors` [n_target, d], at full length, and which
    pieces have one."""
    mean, mass = table.expectation(vectors)
    norms, _ = table.expectation(np.linalg.norm(vectors, axis=1, keepdims=True))
    return _rescaled(mean, norms[:, 0]), mass > 0


def fill_from_glosses(
    known: npt.NDArray[np.bool_],
    vectors: Array,
    tokenizer: Tokenizer,
    glosses: Mapping[str, Sequence[str]],
    of_english: Array,
) -> npt.NDArray[np.bool_]:
    """Gives each Chinese piece that is not `known` the mean vector of its dictionary glosses' pieces, else that of its
    characters, in place. `of_english` [V, d] are the vectors that English pieces have in this space. Returns what is
    known afterwards."""
    known = known.copy()
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    unknown = [i for i, p in enumerate(pieces) if not known[i] and HAN.fullmatch(p)]
    for i in unknown:
        words = [
            w for gloss in glosses.get(pieces[i], ())[:3] for w in tokenizer.encode(PARENTHESES.sub("", gloss).strip())
        ]
        if words:
            rows = of_english[words]
            vectors[i] = _rescaled(rows.mean(0, keepdims=True), np.linalg.norm(rows, axis=1).mean(keepdims=True))[0]
            known[i] = True
    for i in unknown:
        characters = [c for c in (tokenizer.backend.token_to_id(c) for c in pieces[i]) if c is not None and known[c]]
        if not known[i] and characters:
            vectors[i] = vectors[characters].mean(0)
            known[i] = True
    return known


def read_glosses(path: str | Path) -> dict[str, list[str]]:
    """`gloss<TAB>word` lines, most usual gloss first, as word → glosses."""
    glosses: dict[str, list[str]] = {}
    for row in read_rows(path):
        glosses.setdefault(row["zh"], []).append(row["en"])
    return glosses


def student_rows(tokenizer: Tokenizer, student_pieces: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """For each of our pieces its number in the student's vocabulary (which writes spaces as U+2581), −1 if none."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    rows = np.array([student_pieces.get(p.replace(" ", "\u2581"), -1) for p in pieces])
    rows[tokenizer.id("</s>")] = student_pieces["</s>"]
    return rows


def starting_tensors(
    teacher: Transformer, student_pieces: Mapping[str, int], tokenizer: Tokenizer, self_attention: Mapping[str, Tensor],
    pairs: Sequence[tuple[str, str]], pivots: Mapping[str, Sequence[int]], glosses: Mapping[str, Sequence[str]], seed: int = 0,
) -> dict[str, Tensor]:  # fmt: skip
    """Tensors for our model (separate source and target embeddings, tied output) from an English-Portuguese `teacher`.

    `pairs` are (english, chinese) sentences; `pivots` gives the teacher's Portuguese, as its ids, of some of the English
    ones. A Chinese source piece starts at the expected source vector of its English translation; every target piece, at
    that of its Portuguese translation (its Portuguese direct where the pivots show it, else by way of English, else from
    the dictionary), both from IBM Model 1 tables. Layers are the teacher's, with `self_attention` for the SSRU.
    """
    n, n_student = tokenizer.vocab_size, teacher.config.src_vocab_size
    table = teacher.src_embedding.weight.detach().numpy()
    bias = teacher.logits_bias.detach().numpy()[:, None]
    rows = student_rows(tokenizer, student_pieces)
    rng = np.random.default_rng(seed)
    english = tokenizer.encode_batch(e for e, _ in pairs)
    chinese = tokenizer.encode_batch(c for _, c in pairs)
    to_english = symmetrised_table(list(zip(chinese, english, strict=True)), n, n)

    typical = table[rows[rows >= 0]]
    source = rng.normal(typical.mean(0), 0.3 * typical.std(0), (n, table.shape[1])).astype(np.float32)
    known = rows >= 0
    source[known] = table[rows[known]]
    mean, found = expected(to_english, source)
    found &= ~known
    source[found] = mean[found]
    known = fill_from_glosses(known | found, source, tokenizer, glosses, source)
    report("source pieces", known, found, n)

    with_pivot = [i for i, (e, _) in enumerate(pairs) if e in pivots]
    portuguese = [pivots[pairs[i][0]] for i in with_pivot]
    unique = {pairs[i][0]: i for i in with_pivot}
    english_table = symmetrised_table([(english[i], pivots[e]) for e, i in unique.items()], n, n_student)
    target = rng.normal(typical.mean(0), 0.3 * typical.std(0), (n, table.shape[1])).astype(np.float32)
    target_bias = np.full((n, 1), float(np.median(bias[rows[rows >= 0]])), np.float32)
    known = rows >= 0
    target[known], target_bias[known] = table[rows[known]], bias[rows[known]]
    direct_table = symmetrised_table(list(zip((chinese[i] for i in with_pivot), portuguese, strict=True)), n, n_student)
    counts = np.bincount([p for i in with_pivot for p in chinese[i]], minlength=n)
    for kind in (english_table, to_english, direct_table):
        mean, found = expected(kind, target if kind is to_english else table)
        mean_bias, _ = kind.expectation(target_bias if kind is to_english else bias)
        if kind is english_table:
            pass
        elif kind is to_english:
            found &= rows < 0
        else:
            found &= (rows < 0) & (counts >= 4)
        target[found], target_bias[found] = mean[found], mean_bias[found]
        known |= found
    known = fill_from_glosses(known, target, tokenizer, glosses, target)
    report("target pieces", known, found, n)
    for vectors in (source, target):
        for piece in ("<pad>", "<translate:zh>", "<translate:en>", "<summarize>", "<answer>"):
            vectors[tokenizer.id(piece)] = rng.normal(0, 0.01, table.shape[1])
    target_bias[[tokenizer.id(p) for p in ("<pad>", "<unk>", "<translate:zh>", "<translate:en>")]] = -8.0
    tensors = {
        name: value.detach().clone()
        for name, value in teacher.state_dict().items()
        if name.startswith(("encoder.", "decoder.")) and ".self_attn.w" not in name
    }
    tensors.update(self_attention)
    tensors["src_embedding.weight"] = torch.from_numpy(source)
    tensors["tgt_embedding.weight"] = torch.from_numpy(target)
    tensors["logits_bias"] = torch.from_numpy(target_bias[:, 0].copy())
    return tensors


def report(what: str, known: npt.NDArray[np.bool_], aligned: npt.NDArray[np.bool_], n: int) -> None:
    """One line on stderr: how many pieces start somewhere meaningful, and how many by alignment."""
    print(f"{what}: {int(known.sum())} of {n} start from a meaning, {int(aligned.sum())} by alignment", file=sys.stderr)

"""Starting from a student: its decoder against its formulas in NumPy, and where our layers and pieces begin."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Backend
from torch import Tensor

from tx.model.attention import MultiHeadAttention
from tx.model.config import ModelConfig
from tx.model.errors import CheckpointError
from tx.model.tokenizer import Tokenizer
from tx.model.train import transfer
from tx.model.train.__main__ import main
from tx.model.train.architecture import model_config
from tx.model.transformer import Transformer

Array = np.ndarray[Any, Any]
D, D_FF, HEADS, LAYERS = 16, 24, 8, 2
VOCAB = 63  # a few more than the student's pieces in conftest


def made_up_student(seed: int = 1, vocab_size: int = VOCAB) -> dict[str, Array]:
    """Random weights under Marian's names."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1.3) -> Array:
        return rng.normal(0, scale * rows**-0.5, (rows, columns)).astype(np.float32)

    def vector(size: int, mean: float = 0.0) -> Array:
        return rng.normal(mean, 0.2, (1, size)).astype(np.float32)

    arrays = {"Wemb": rng.normal(0, D**-0.5, (vocab_size, D)).astype(np.float32)}
    arrays["decoder_ff_logit_out_b"] = vector(vocab_size)
    for stack, attentions in (("encoder", ("self",)), ("decoder", ("context",))):
        for layer in range(1, LAYERS + 1):
            at = f"{stack}_l{layer}_"
            for kind in attentions:
                for name in "qkvo":
                    arrays[f"{at}{kind}_W{name}"], arrays[f"{at}{kind}_b{name}"] = matrix(D, D), vector(D)
                arrays[f"{at}{kind}_Wo_ln_scale"], arrays[f"{at}{kind}_Wo_ln_bias"] = vector(D, 1.0), vector(D)
            arrays[f"{at}ffn_W1"], arrays[f"{at}ffn_b1"] = matrix(D, D_FF), vector(D_FF)
            arrays[f"{at}ffn_W2"], arrays[f"{at}ffn_b2"] = matrix(D_FF, D), vector(D)
            arrays[f"{at}ffn_ffn_ln_scale"], arrays[f"{at}ffn_ffn_ln_bias"] = vector(D, 1.0), vector(D)
            if stack == "decoder":
                arrays[f"{at}rnn_W"], arrays[f"{at}rnn_Wf"], arrays[f"{at}rnn_bf"] = (
                    matrix(D, D),
                    matrix(D, D),
                    vector(D),
                )
                arrays[f"{at}rnn_ffn_ln_scale"], arrays[f"{at}rnn_ffn_ln_bias"] = vector(D, 1.0), vector(D)
    return arrays


class NumpyStudent:
    """The student by its formulas, one sentence at a time, in double precision."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.w = {name: array.astype(np.float64) for name, array in arrays.items()}

    def norm(self, x: Array, at: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-9)
        return np.asarray(scaled * self.w[at + "_ln_scale"][0] + self.w[at + "_ln_bias"][0])

    def position(self, t: int) -> Array:
        frequency = np.array([10000 ** (-i / (D / 2 - 1)) for i in range(D // 2)])
        return np.concatenate([np.sin(t * frequency), np.cos(t * frequency)])

    def attention(self, x: Array, memory: Array, at: str) -> Array:
        q, k, v = (
            (s @ self.w[f"{at}_W{n}"] + self.w[f"{at}_b{n}"]) for s, n in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        heads = []
        for h in range(HEADS):
            part = slice(h * D // HEADS, (h + 1) * D // HEADS)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(D // HEADS))
            heads.append(scores / scores.sum(1, keepdims=True) @ v[:, part])
        return np.asarray(np.concatenate(heads, axis=1) @ self.w[f"{at}_Wo"] + self.w[f"{at}_bo"])

    def attend(self, x: Array, memory: Array, at: str) -> Array:
        return self.norm(x + self.attention(x, memory, at), at + "_Wo")

    def ffn(self, x: Array, at: str) -> Array:
        hidden = np.maximum(0, x @ self.w[at + "_W1"] + self.w[at + "_b1"])
        return self.norm(x + hidden @ self.w[at + "_W2"] + self.w[at + "_b2"], at + "_ffn")

    def encode(self, src: list[int]) -> Array:
        x = np.stack([self.w["Wemb"][i] * math.sqrt(D) + self.position(t) for t, i in enumerate(src)])
        for layer in range(1, LAYERS + 1):
            x = self.ffn(self.attend(x, x, f"encoder_l{layer}_self"), f"encoder_l{layer}_ffn")
        return x

    def translate(self, src: list[int], limit: int) -> tuple[list[int], list[Array]]:
        """The greedy translation, without the end, and the logits of each step."""
        memory, cells = self.encode(src), [np.zeros(D) for _ in range(LAYERS)]
        out: list[int] = []
        logits = []
        for t in range(limit):
            x = (self.w["Wemb"][out[-1]] * math.sqrt(D) if out else np.zeros(D)) + self.position(t)
            for layer in range(1, LAYERS + 1):
                at = f"decoder_l{layer}_"
                forget = 1 / (1 + np.exp(-(x @ self.w[at + "rnn_Wf"] + self.w[at + "rnn_bf"][0])))
                cells[layer - 1] = forget * cells[layer - 1] + (1 - forget) * (x @ self.w[at + "rnn_W"])
                x = self.norm(np.maximum(0, cells[layer - 1]) + x, at + "rnn_ffn")
                x = self.ffn(self.attend(x[None], memory, at + "context"), at + "ffn")[0]
            logits.append(x @ self.w["Wemb"].T + self.w["decoder_ff_logit_out_b"][0])
            if not (piece := int(logits[-1].argmax())):
                break
            out.append(piece)
        return out, logits


def student(arrays: dict[str, Array]) -> Transformer:
    config, tensors = transfer.student_tensors(arrays)
    model = Transformer(config)
    model.load_state_dict(tensors)
    return model.eval()


def random_sources(n: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [[*rng.integers(1, VOCAB, rng.integers(1, 9)).tolist(), 0] for _ in range(n)]


# -- the student -------------------------------------------------------------------------------------------------------


def test_the_student_does_what_its_formulas_say() -> None:
    arrays = made_up_student()
    arrays["decoder_ff_logit_out_b"][0, 0] += 2.5  # so that some sentences end before the limit
    reference, model = NumpyStudent(arrays), student(arrays)
    sources = random_sources(40)
    found = dict(transfer.student_translate(model, sources, batch=16))
    assert sorted(found) == list(range(40))
    ended = 0
    order = sorted(range(40), key=lambda i: len(sources[i]))
    for first in range(0, 40, 16):
        rows = order[first : first + 16]
        limit = 2 * max(len(sources[i]) for i in rows) + 5
        for i in rows:
            expected, steps = reference.translate(sources[i], limit)
            assert found[i] == expected
            ended += len(steps) > len(expected)
            start = model.config.tgt_vocab_size - 1
            with torch.inference_mode():
                logits, _ = model(torch.tensor([sources[i]]), None, torch.tensor([[start, *expected][: len(steps)]]))
            np.testing.assert_allclose(logits[0, :, :-1].numpy(), np.stack(steps), rtol=1e-3, atol=1e-3)
            assert logits[0, :, -1].max() < -1e8  # the piece it starts with is never written
    assert 5 < ended < 40
    assert len({tuple(ids) for ids in found.values()}) > 15


def write_marian(path: Path, arrays: dict[str, Array]) -> None:
    names = [name.encode() + b"\0" for name in arrays]
    head = struct.pack("<QQ", 1, len(arrays))
    head += b"".join(
        struct.pack("<4Q", len(n), 0x404, 2, a.nbytes) for n, a in zip(names, arrays.values(), strict=True)
    )
    shapes = b"".join(struct.pack("<2i", *a.shape) for a in arrays.values())
    data = b"".join(a.astype("<f4").tobytes() for a in arrays.values())
    path.write_bytes(head + b"".join(names) + shapes + struct.pack("<Q", 0) + data)


def test_a_student_is_read_from_its_file(tmp_path: Path) -> None:
    arrays = made_up_student()
    write_marian(tmp_path / "model.bin", arrays)
    model, expected = transfer.load_student(tmp_path / "model.bin"), student(arrays)
    assert model.config == expected.config and not model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name])


@pytest.mark.parametrize(
    ("name", "words"), [("Wemb", "Wemb"), ("decoder_l1_rnn_W", "decoder.layers.0.self_attn.w.weight")]
)
def test_an_incomplete_student_is_refused(tmp_path: Path, name: str, words: str) -> None:
    arrays = made_up_student()
    del arrays[name]
    write_marian(tmp_path / "model.bin", arrays)
    with pytest.raises(CheckpointError, match=words) as caught:
        transfer.load_student(tmp_path / "model.bin")
    assert "model.bin" in str(caught.value) and "\n" not in str(caught.value)


# -- self-attention in place of SSRU -----------------------------------------------------------------------------------


def with_attention(teacher: Transformer, attention: dict[str, Tensor]) -> Transformer:
    model = Transformer(ModelConfig(**{**vars(teacher.config), "decoder_autoregression": "attention"}))
    kept = {name: value for name, value in teacher.state_dict().items() if ".self_attn.w" not in name}
    model.load_state_dict({**kept, **attention})
    return model.eval()


def test_distilling_brings_self_attention_close_to_ssru() -> None:
    teacher = student(made_up_student())
    sources = random_sources(140)
    targets = [ids[:8] for _, ids in sorted(transfer.student_translate(teacher, sources))]
    held_out = slice(120, 140)

    def error(attention: dict[str, Tensor]) -> float:
        """Mean squared difference of the logits, on sentences that were not trained on."""
        model, total, n = with_attention(teacher, attention), 0.0, 0
        for source, target in zip(sources[held_out], targets[held_out], strict=True):
            tgt = torch.tensor([[teacher.config.tgt_vocab_size - 1, *target]])
            with torch.inference_mode():
                a, b = (m(torch.tensor([source]), None, tgt)[0][..., :-1] for m in (teacher, model))
            total, n = total + float(((a - b) ** 2).sum()), n + a.numel()
        return total / n

    torch.manual_seed(0)
    before = transfer.distil_self_attention(teacher, sources[:120], targets[:120], seconds=0)
    names = {n for n, _ in MultiHeadAttention(teacher.config).named_parameters()}
    assert set(before) == {f"decoder.layers.{i}.self_attn.{name}" for i in range(LAYERS) for name in names}
    torch.manual_seed(0)
    after = transfer.distil_self_attention(teacher, sources[:120], targets[:120], seconds=1.5, lr=3e-2)
    assert error(after) < 0.7 * error(before)


# -- where our pieces start --------------------------------------------------------------------------------------------

PAIRS = [
    ("the cat sees the dog", "猫看见狗"), ("the dog sees the cat", "狗看见猫"), ("the cat eats", "猫吃"),
    ("the dog eats", "狗吃"), ("the cat runs", "猫跑"), ("the dog runs", "狗跑"), ("the bird sees the cat", "鸟看见猫"),
    ("the bird eats", "鸟吃"), ("the bird runs", "鸟跑"), ("the sun", "太阳"), ("the moon", "月亮"),
]  # fmt: skip
# "Portuguese": every English word is the teacher's piece of this number.
PORTUGUESE = {"the": 40, "cat": 41, "dog": 42, "bird": 43, "sees": 44, "eats": 45, "runs": 46, "sun": 47, "moon": 48}


@pytest.fixture
def started(tokenizer: Tokenizer, student_vocabulary: Path) -> tuple[Transformer, dict[str, int], dict[str, Tensor]]:
    """The teacher, its vocabulary, and the tensors that we start from."""
    teacher = student(made_up_student())
    pieces = Backend.from_file(str(student_vocabulary)).get_vocab()
    attention = transfer.distil_self_attention(teacher, [], [], seconds=0)
    pivots = {e: [PORTUGUESE[word] for word in e.split()] for e, _ in PAIRS}
    glosses = {"河": ["river"], "红": ["(color) red", "to go red"]}
    return teacher, pieces, transfer.starting_tensors(teacher, pieces, tokenizer, attention, PAIRS * 3, pivots, glosses)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.detach(), b.detach(), dim=-1))


def test_the_tensors_are_those_of_our_model(
    started: tuple[Transformer, dict[str, int], dict[str, Tensor]], tokenizer: Tokenizer
) -> None:
    teacher, _, tensors = started
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D // HEADS, "d_ff": D_FF, "n_encoder_layers": LAYERS}
    config = model_config(
        tokenizer.vocab_size, n_segments=0, pointer_generator=False, **sizes
    )  # these come with the training
    model = Transformer(config)
    model.load_state_dict(tensors)  # names and shapes, exactly
    assert all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in tensors.values())
    theirs = teacher.state_dict()
    for name in (
        "encoder.layers.1.ffn.w_1.weight",
        "decoder.layers.0.cross_attn.k_proj.bias",
        "decoder.layers.1.ffn_norm.bias",
    ):
        assert torch.equal(tensors[name], theirs[name])


def test_shared_pieces_keep_their_vectors(
    started: tuple[Transformer, dict[str, int], dict[str, Tensor]], tokenizer: Tokenizer
) -> None:
    teacher, pieces, tensors = started
    table = teacher.src_embedding.weight
    for ours, theirs in ((" cat", "\u2581cat"), (" tree", "\u2581tree"), ("</s>", "</s>"), (".", ".")):
        assert torch.equal(tensors["src_embedding.weight"][tokenizer.id(ours)], table[pieces[theirs]])
    # Nothing is known of this word in Portuguese: the decoder starts with the English one.
    tree = tokenizer.id(" tree"), pieces["\u2581tree"]
    assert torch.equal(tensors["tgt_embedding.weight"][tree[0]], table[tree[1]])
    assert tensors["logits_bias"][tree[0]] == teacher.logits_bias[tree[1]]


def test_translations_start_where_their_originals_are(
    started: tuple[Transformer, dict[str, int], dict[str, Tensor]], tokenizer: Tokenizer
) -> None:
    teacher, pieces, tensors = started
    table = teacher.src_embedding.weight
    source, target = tensors["src_embedding.weight"], tensors["tgt_embedding.weight"]
    for chinese, english in (("猫", "cat"), ("狗", "dog"), ("鸟", "bird"), ("吃", "eats"), ("跑", "runs")):
        assert cosine(source[tokenizer.id(chinese)], table[pieces["\u2581" + english]]) > 0.8
        assert cosine(target[tokenizer.id(chinese)], table[PORTUGUESE[english]]) > 0.8
        assert cosine(target[tokenizer.id(" " + english)], table[PORTUGUESE[english]]) > 0.8
        length = float(source[tokenizer.id(chinese)].norm() / table[pieces["\u2581" + english]].norm())
        assert 0.7 < length < 1.4  # a mean of vectors is short: it is stretched


def test_the_dictionary_fills_what_no_sentence_shows(
    started: tuple[Transformer, dict[str, int], dict[str, Tensor]], tokenizer: Tokenizer
) -> None:
    teacher, pieces, tensors = started
    table = teacher.src_embedding.weight
    for name in ("src_embedding.weight", "tgt_embedding.weight"):
        assert cosine(tensors[name][tokenizer.id("河")], table[pieces["\u2581river"]]) > 0.99
    assert cosine(tensors["src_embedding.weight"][tokenizer.id("红")], table[pieces["\u2581red"]]) > 0.5


def test_glosses_are_read(tmp_path: Path) -> None:
    path = tmp_path / "glosses.tsv"
    path.write_text("river\t河\nstream\t河\nred\t红\n", encoding="utf-8")
    assert transfer.read_glosses(path) == {"河": ["river", "stream"], "红": ["red"]}


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_step_makes_starting_weights(
    tmp_path: Path, tokenizer: Tokenizer, student_vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "student"
    folder.mkdir()
    student_vocabulary.rename(folder / "tokenizer.json")
    (tmp_path / "pairs.tsv").write_text("".join(f"{e}\t{c}\n" for e, c in PAIRS), encoding="utf-8")
    (tmp_path / "glosses.tsv").write_text("river\t河\n", encoding="utf-8")
    tokenizer.save(tmp_path / "tokenizer.json")
    files = {"student": "student", "tokenizer": "tokenizer.json", "pairs": "pairs.tsv", "glosses": "glosses.tsv"}
    options = [a for option, name in files.items() for a in (f"--{option}", str(tmp_path / name))]
    command = ["transfer", *options, "--distil-seconds", "0.2", "--out", str(tmp_path / "init.safetensors")]
    assert main(command) == 1
    assert "expected one model.*.bin, found 0" in capsys.readouterr().err
    write_marian(folder / "model.enpt.bin", made_up_student())
    assert main(command) == 0
    assert "source pieces:" in capsys.readouterr().err
    tensors = load_file(tmp_path / "init.safetensors")
    sizes = {"d_model": D, "n_heads": HEADS, "d_head": D // HEADS, "d_ff": D_FF, "n_encoder_layers": LAYERS}
    config = model_config(
        tokenizer.vocab_size, n_segments=0, pointer_generator=False, **sizes
    )  # these come with the training
    Transformer(config).load_state_dict(tensors)

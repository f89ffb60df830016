"""Int8 products, models in other precisions, and the search's short cut: against the plain computation."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.parity.test_engines import FAMILIES, SIZES
from tx.model import generation, int8, precision
from tx.model.config import GenerationConfig, ModelConfig, SpecialIds
from tx.model.errors import TxError, UsageError
from tx.model.generation import generate
from tx.model.int8 import Int8Linear
from tx.model.precision import bf16_is_faster, prepare
from tx.model.runtime import PRECISIONS, Runtime
from tx.model.torch_engine import TorchStepper, _highest
from tx.model.transformer import Transformer

needs_int8 = pytest.mark.skipif(not int8.is_supported(), reason="int8 kernels are for x86-64")
SPECIAL = SpecialIds(pad=0, eos=1, decoder_start=2, unk=3)


def random_model(family: str, **more: Any) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**{**SIZES, **FAMILIES[family], **more}))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def sources(n: int, length: int = 9) -> list[list[int]]:
    rng = np.random.default_rng(n)
    return [[*rng.integers(4, 50, int(rng.integers(3, length))).tolist(), 1] for _ in range(n)]


@needs_int8
@torch.inference_mode()
@pytest.mark.parametrize("non_negative", [False, True])
def test_an_int8_layer_is_near_the_real_one(non_negative: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(40, 64) * torch.logspace(-3, 3, 40)[:, None], torch.randn(30, 64), torch.randn(30)
    x = x.abs() if non_negative else x
    exact = torch.nn.functional.linear(x, weight, bias)
    found = Int8Linear(weight, bias, non_negative)(x)
    size = x.abs().amax(1, keepdim=True)
    # Half a step of each number of x, and of each of W, all of them the wrong way.
    worst = size / (510 if non_negative else 254) * weight.abs().sum(1)
    worst = worst + x.abs().sum(1, keepdim=True) * weight.abs().amax(1) / 126
    assert ((found - exact).abs() <= worst * 1.1 + 1e-5).all()
    assert float((found - exact).norm() / exact.norm()) < 0.03
    without = Int8Linear(weight, None, non_negative)(x)
    torch.testing.assert_close(without + bias, found, atol=1e-4, rtol=1e-4)
    assert Int8Linear(weight, bias)(x.reshape(5, 8, 64)).shape == (5, 8, 30)


@needs_int8
@torch.inference_mode()
def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(1)
    x, layer = torch.randn(33, 64) * 5, Int8Linear(torch.randn(30, 64), torch.randn(30))
    together = layer(x)
    for i in range(len(x)):
        assert torch.equal(layer(x[i : i + 1])[0], together[i])
        assert torch.equal(layer(torch.cat((x[i : i + 1], 1000 * x)))[0], together[i])


@needs_int8
@torch.inference_mode()
def test_what_is_beyond_a_limit_counts_as_the_limit() -> None:
    torch.manual_seed(2)
    x, weight, bias = torch.randn(20, 64), torch.randn(30, 64), torch.randn(30)
    found = Int8Linear(weight, bias, limit=1.0)(x)
    exact = torch.nn.functional.linear(x.clamp(-1, 1), weight, bias)
    assert float((found - exact).norm() / exact.norm()) < 0.02
    torch.testing.assert_close(Int8Linear(weight, bias, limit=1.0, relu=True)(x), found.relu())
    by_row = Int8Linear(weight, bias, relu=True)(x)
    torch.testing.assert_close(by_row, Int8Linear(weight, bias)(x).relu())


@needs_int8
def test_weights_that_are_not_numbers_are_refused() -> None:
    weight = torch.ones(4, 8)
    weight[2, 3] = math.nan
    with pytest.raises(TxError, match="not a number"):
        Int8Linear(weight)


@torch.inference_mode()
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["fp32", pytest.param("int8", marks=needs_int8), "bf16"])
def test_a_prepared_model_computes_the_same(family: str, name: str) -> None:
    model = random_model(family)
    ready = prepare(copy.deepcopy(model), name)
    src = torch.tensor([row[:4] for row in sources(6, 20) if len(row) >= 4])
    tgt = torch.tensor([[2, 5, 7, 9]]).expand(len(src), -1)
    exact, found = model(src, None, tgt)[0], ready(src, None, tgt)[0].float()
    if name == "fp32":
        torch.testing.assert_close(found, exact, atol=1e-4, rtol=1e-4)
    else:
        exact, found = exact.log_softmax(-1).exp(), found.log_softmax(-1).exp()
        assert not torch.equal(found, exact)
        assert float((found - exact).abs().sum(-1).mean()) < 0.35  # of 2 at most; random weights are far apart
    assert any("joined" in n or n.endswith(("qkv_proj", "kv_proj")) for n, _ in ready.named_modules())


def test_prepared_projections_are_kept_once() -> None:
    model = prepare(random_model("vanilla"), "fp32")
    attn: Any = model.encoder.layers[0].self_attn
    assert attn.q_proj.weight.untyped_storage().data_ptr() == attn.qkv_proj.weight.untyped_storage().data_ptr()


def test_auto_is_bf16_only_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for faster, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        monkeypatch.setattr(precision, "bf16_is_faster", lambda faster=faster: faster)
        assert next(prepare(random_model("vanilla"), "auto").parameters()).dtype == dtype
    assert next(prepare(random_model("vanilla")).parameters()).dtype == torch.float32
    monkeypatch.undo()
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not bf16_is_faster()


def test_precision_is_checked() -> None:
    with pytest.raises(UsageError, match="precision must be one of fp32, bf16, int8, auto, not 'fp8'"):
        Runtime(precision="fp8")
    with pytest.raises(UsageError, match="the engine numpy computes in fp32, not in int8"):
        Runtime(precision="int8", engine="numpy")
    assert Runtime(precision="int8").engine == "torch"
    assert Runtime().precision == PRECISIONS[0] == "fp32"


class Slow:
    """The same engine without the short cut."""

    def __init__(self, stepper: TorchStepper) -> None:
        self.start, self.step, self.reorder = stepper.start, stepper.step, stepper.reorder


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("renormalize", [True, False])
def test_the_short_cut_finds_the_same(family: str, beam: int, renormalize: bool) -> None:
    if "shortlist" in family:
        pytest.skip("has its own test")
    stepper = TorchStepper(prepare(random_model(family), "fp32"), SPECIAL.pad)
    assert isinstance(stepper, generation.FastStepper) and not isinstance(Slow(stepper), generation.FastStepper)
    src = sources(12)
    src.append([9, 9, 12, 9, 5, 1])  # a piece several times
    config = GenerationConfig(beam_size=beam, max_length=12, suppress=(3, 9, 20), renormalize=renormalize)
    kinds = [np.zeros(len(row), np.int64) for row in src] if stepper.model.config.n_segments else None
    asked: dict[str, Any] = {"config": config, "special": SPECIAL, "prefix": [2], "n_best": beam, "kinds": kinds}
    fast, slow = generate(stepper, src, **asked), generate(Slow(stepper), src, **asked)
    assert sum(len(found) for found in fast) >= len(src)
    for ours, theirs in zip(fast, slow, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        np.testing.assert_allclose([h.log_prob for h in ours], [h.log_prob for h in theirs], atol=2e-4, rtol=1e-4)
        assert not any({0, 3, 9, 20} & set(h.ids) for h in ours)


@pytest.mark.parametrize("name", ["fp32", pytest.param("int8", marks=needs_int8)])
@pytest.mark.parametrize("beam", [1, 3])
def test_the_short_cut_of_a_shortlist(name: str, beam: int) -> None:
    listed = np.array([0, 1, 3, 5, 9, *range(20, 45)])
    stepper = TorchStepper(prepare(random_model("bergamot"), name), SPECIAL.pad, lambda src: listed)
    config = GenerationConfig(beam_size=beam, max_length=12, suppress=(3, 7, 21))
    asked: dict[str, Any] = {"config": config, "special": SPECIAL, "prefix": [2], "n_best": beam}
    fast, slow = generate(stepper, sources(9), **asked), generate(Slow(stepper), sources(9), **asked)
    for ours, theirs in zip(fast, slow, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert all(set(h.ids) <= set(listed.tolist()) - {0, 3, 21} for h in ours)


@pytest.mark.parametrize("size", [3, 50, 128, 700, 1300])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_the_highest_are_the_highest(size: int, count: int) -> None:
    logits = torch.randn(7, size, generator=torch.Generator().manual_seed(size))
    logits[2, size // 2 :] = -math.inf
    logits[3, : min(size, 3)] = 9.0  # equal ones
    values, places = _highest(logits.clone(), count)
    for row, found, where in zip(logits, values, places, strict=True):
        order = sorted(range(size), key=lambda i: (-row[i], i))[:count]  # noqa: B023
        there = [i for i in order if row[i] > -math.inf]
        assert found.tolist() == [*(row[i].item() for i in there), *[-math.inf] * (count - len(there))]
        assert where.tolist()[: len(there)] == there


def test_logits_that_are_not_numbers_are_noticed() -> None:
    model = random_model("vanilla")
    with torch.no_grad():
        model.decoder.layers[0].ffn_norm.weight.fill_(math.nan)  # type: ignore[union-attr,operator]
    with pytest.raises(TxError, match="not a number"):
        generate(TorchStepper(model, 0), sources(2), config=GenerationConfig(), special=SPECIAL, prefix=[2])


@needs_int8
def test_the_default_weights_say_much_the_same_in_int8() -> None:
    from tx.model.pipeline import Translator

    texts = [
        "I love NLP.",
        "Where is the station?",
        "She reads a book every evening.",
        "我们明天去北京。",
        "他是我的老师。",
    ]
    exact = [t.text for t in Translator(engine="torch", precision="fp32").translate(texts, beam_size=1)]
    eight = Translator(precision="int8")
    found = [t.text for t in eight.translate(texts, beam_size=1)]
    assert sum(a == b for a, b in zip(exact, found, strict=True)) >= 4

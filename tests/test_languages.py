"""Which pairs a foreign model translates, and by which pieces it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tx.model import languages
from tx.model.config import AllPairs, CheckpointConfig, ModelConfig, SpecialIds, Task
from tx.model.errors import CheckpointError, ConfigError
from tx.model.languages import GROUPS, M2M100, MBART, MBART_50, NLLB, TWO_LETTERS, find, names, offer, pairs, short


class Pieces:
    """A vocabulary of special pieces; a text is encoded as the codes of its letters."""

    def __init__(self, special: Sequence[str]) -> None:
        self.special = dict(enumerate(special, 1000))

    def id(self, piece: str) -> int:
        return {name: i for i, name in self.special.items()}[piece]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


def tasks(
    folder: Path, kind: str, special: Sequence[str] = (), name: str = "model", more: Any = None, **values: Any
) -> Mapping[str, Task]:
    folder = folder / name
    folder.mkdir(exist_ok=True)
    if more is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(more), encoding="utf-8")
    pieces = Pieces(["</s>", *special])
    return languages.tasks(folder, kind, (pieces, pieces), values)


# --- names ---


@pytest.mark.parametrize(("code", "language", "script"), [
    ("zho_Hans", "zh", "Hans"), ("zho_Hant", "zh", "Hant"), (">>cmn_Hans<<", "zh", "Hans"), ("__zh__", "zh", ""),
    ("zh_CN", "zh", "Hans"), ("zh-TW", "zh", "Hant"), ("en_XX", "en", ""), ("eng_Latn", "en", "Latn"), ("de", "de", ""),
    ("DEU", "de", ""), ("yue_Hant", "yue", "Hant"), (">>fra<<", "fr", ""), ("pt-br", "pt", ""), ("", "", ""),
])  # fmt: skip
def test_short_names(code: str, language: str, script: str) -> None:
    assert short(code) == (language, script)


@pytest.mark.parametrize("codes", [MBART, MBART_50, M2M100, NLLB])
def test_every_language_has_a_name_of_its_own(codes: list[str]) -> None:
    found = names(codes)
    assert list(found.values()) == codes
    assert all(find(name, found) == name for name in found)
    assert all(find(code, found) == name for name, code in found.items())
    assert {"en", "zh", "de", "fr", "es", "ja", "ar", "ru", "sw"} - set(found) <= {"sw"}


def test_scripts_are_told_apart() -> None:
    found = names(NLLB)
    assert {name: found[name] for name in ("zh", "zh_Hant", "ace", "ace_Arab", "taq_Tfng", "ar", "arz", "no" if "no" in found else "nb")} == {
        "zh": "zho_Hans", "zh_Hant": "zho_Hant", "ace": "ace_Latn", "ace_Arab": "ace_Arab", "taq_Tfng": "taq_Tfng",
        "ar": "arb_Arab", "arz": "arz_Arab", "nb": "nob_Latn",
    }  # fmt: skip
    assert names(["cmn", "cmn_Hant", "cmn_Hans"]) == {"cmn": "cmn", "zh_Hant": "cmn_Hant", "zh": "cmn_Hans"}


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([">>pt_br<<", ">>pt<<"], {"pt_BR": ">>pt_br<<", "pt": ">>pt<<"}),
        ([">>pt<<", ">>pt_br<<", ">>pt_BR<<"], {"pt": ">>pt<<", "pt_br": ">>pt_br<<", "pt_BR": ">>pt_BR<<"}),
        ([">>pt_br<<"], {"pt": ">>pt_br<<"}),
        ([">>pt_br<<", ">>pt_pt<<"], {"pt_BR": ">>pt_br<<", "pt_PT": ">>pt_pt<<"}),
        ([">>pt_br<<", ">>por<<"], {"pt_BR": ">>pt_br<<", "pt": ">>por<<"}),
        ([">>zh_cn<<", ">>zh<<"], {"zh_Hans": ">>zh_cn<<", "zh": ">>zh<<"}),
    ],
)
def test_a_code_of_a_region_takes_no_name_from_that_of_the_language(codes: list[str], expected: dict[str, str]) -> None:
    assert names(codes) == expected
    assert names(codes[::-1]) == expected
    assert all(find(spelt, names(codes)) == name for name in expected for spelt in (name, name.replace("_", "-")))


@pytest.mark.parametrize(("wanted", "known", "name"), [
    ("pt_BR", ["pt", "pt_BR"], "pt_BR"), ("pt-br", ["pt", "pt_BR"], "pt_BR"), ("pt", ["pt_BR", "pt_PT"], None),
    ("pt_BR", ["pt", "pob"], "pob"), ("pob", ["pt", "pt_BR"], "pt_BR"), ("jap", ["ja"], "ja"), ("ger", ["de"], "de"),
    ("zh", ["en", "zh"], "zh"), ("ZH", ["zh"], "zh"), ("zh-CN", ["zh"], "zh"), ("zh_TW", ["zh"], None), ("cmn", ["zh"], "zh"),
    ("zh_TW", ["zh", "zh_Hant"], "zh_Hant"), ("zho_Hant", ["zh", "zh_Hant"], "zh_Hant"), ("zh-hant", ["zh_Hant"], "zh_Hant"),
    ("no", ["nb"], "nb"), ("nb", ["no"], "no"), ("iw", ["he"], "he"), ("jp", ["ja"], "ja"), ("eng_Latn", ["en"], "en"),
    ("en_GB", ["en"], "en"), ("xx", ["en"], None), ("", ["en"], None), ("-", ["en"], None), ("en", [], None),
])  # fmt: skip
def test_finding_what_a_user_means(wanted: str, known: list[str], name: str | None) -> None:
    assert find(wanted, known) == name


def test_tables() -> None:
    assert (len(MBART), len(MBART_50), len(M2M100), len(NLLB)) == (25, 52, 100, 202)
    assert all(len(three) == 3 and len(two) == 2 for three, two in TWO_LETTERS.items())
    assert all(2 <= len(code) <= 3 for group in GROUPS.values() for code in group.split())


def test_what_is_offered() -> None:
    assert offer([]) == "nothing"
    assert offer([("en", "zh"), ("zh", "en")]) == "en → zh, zh → en"
    assert (
        offer(AllPairs(dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 1)).pairs())
        == "between any two of a, b, c, d, e"
    )
    assert offer([("en", f"l{i}") for i in range(13)]).startswith("from en to l0, l1, l10")


# --- tasks ---


@pytest.mark.parametrize(("name", "more", "special", "expected"), [
    ("opus-mt-en-zh", None, [">>cmn_Hans<<", ">>cmn_Hant<<", ">>yue<<"],
     {"translate:zh": ("en", "zh", (1001,)), "translate:zh_Hant": ("en", "zh_Hant", (1002,)), "translate:yue": ("en", "yue", (1003,))}),
    ("opus-mt-zh-en", None, [], {"translate:en": ("zh", "en", ())}),
    ("opus-mt-tc-big-en-pt", None, [">>por<<", ">>pob<<"], {"translate:pt": ("en", "pt", (1001,)), "translate:pob": ("en", "pob", (1002,))}),
    ("models--Helsinki-NLP--opus-mt-de-fr", None, [], {"translate:fr": ("de", "fr", ())}),
    ("anything", {"source_lang": "eng", "target_lang": "zho"}, [], {"translate:zh": ("en", "zh", ())}),
    ("anything", {"source_lang": "en", "target_lang": "mul"}, [">>deu<<"], {"translate:de": ("en", "de", (1001,))}),
    ("opus-mt-CELTIC-en", None, [], {f"translate:{c}-en": (c, "en", ()) for c in "ga cy br gd kw gv".split()}),  # noqa: SIM905
    ("opus-mt-en-jap", None, [], {"translate:ja": ("en", "ja", ())}),
    ("opus-mt-jap-en", None, [], {"translate:en": ("ja", "en", ())}),
    ("opus-mt-de-NORWAY", None, [], {f"translate:{c}": ("de", c, ()) for c in ("no", "nb", "nn")}),
    ("opus-mt-SAMI-fi", None, [], {f"translate:{c}-fi": (c, "fi", ()) for c in ("se", "sma", "smj", "smn", "sms")}),
    ("opus-mt-en-sal", None, [], {"translate:shs": ("en", "shs", ())}),
    ("opus-mt-fi_et-en", None, [], {"translate:fi-en": ("fi", "en", ()), "translate:et-en": ("et", "en", ())}),
])  # fmt: skip
def test_marian(name: str, more: Any, special: list[str], expected: dict[str, Any], tmp_path: Path) -> None:
    found = tasks(tmp_path, "marian", special, name, more)
    assert {key: (task.source, task.target, task.src_prefix) for key, task in found.items()} == expected
    assert {task.tgt_prefix for task in found.values()} == {()}


def test_marian_by_the_name_it_had(tmp_path: Path) -> None:
    assert list(tasks(tmp_path, "marian", _name_or_path="Helsinki-NLP/opus-mt-ja-en")) == ["translate:en"]
    with pytest.raises(CheckpointError, match="name the folder opus-mt-SOURCE-TARGET"):
        tasks(tmp_path, "marian", more={"source_lang": 7})


def test_mbart_50(tmp_path: Path) -> None:
    found = tasks(tmp_path, "mbart", MBART_50, decoder_start_token_id=2)
    assert len(found) == 52 * 51 == len(list(found)) == len(pairs(found))
    english, chinese = 1001 + MBART_50.index("en_XX"), 1001 + MBART_50.index("zh_CN")
    assert found["translate:en-zh"] == Task((english,), (2, chinese), "en", "zh")
    assert pairs(found)["zh", "en"] == "translate:zh-en"
    one = tasks(tmp_path, "mbart", MBART_50, "mbart-large-50-one-to-many-mmt", decoder_start_token_id=2)
    assert {source for source, _ in pairs(one)} == {"en"}
    assert len(one) == len(list(one)) == 51
    many = tasks(tmp_path, "mbart", MBART_50, "mbart-large-50-many-to-one-mmt")
    assert many["translate:zh-en"].tgt_prefix == (1000, english)
    assert {target for _, target in pairs(many)} == {"en"}


def test_mbart_25_has_the_source_last(tmp_path: Path) -> None:
    english, romanian = 1001 + MBART.index("en_XX"), 1001 + MBART.index("ro_RO")
    expected = Task((), (romanian,), "en", "ro", src_suffix=(english,))
    assert tasks(tmp_path, "mbart", MBART, "mbart-large-en-ro") == {"translate:ro": expected}
    assert tasks(tmp_path, "mbart", MBART, task_specific_params={"translation_en_to_ro": {}}) == {
        "translate:ro": expected
    }
    assert tasks(tmp_path, "mbart", MBART)["translate:en-ro"] == expected


def test_nllb_and_m2m100(tmp_path: Path) -> None:
    found = tasks(tmp_path, "m2m_100", NLLB, decoder_start_token_id=2)
    assert len(found) == 202 * 201
    code = {name: 1001 + i for i, name in enumerate(NLLB)}
    assert found["translate:en-zh"] == Task((code["eng_Latn"],), (2, code["zho_Hans"]), "en", "zh")
    assert found["translate:zh_Hant-yue"].tgt_prefix == (2, code["yue_Hant"])
    found = tasks(tmp_path, "m2m_100", [f"__{c}__" for c in M2M100])
    assert found["translate:zh-en"].src_prefix == (1001 + M2M100.index("zh"),)
    for name in ("translate:en-en", "translate:en-xx", "translate:en", "summarize", ""):
        assert name not in found
        assert found.get(name) is None
    with pytest.raises(CheckpointError, match="no piece 'eng_Latn'"):
        tasks(tmp_path, "m2m_100")


def test_t5(tmp_path: Path) -> None:
    found = tasks(tmp_path, "t5")
    assert list(found) == ["summarize", "translate:de", "translate:fr", "translate:ro", "answer"]
    assert bytes(found["translate:de"].src_prefix) == b"translate English to German:"
    assert (found["translate:de"].source, found["translate:de"].target) == ("en", "de")
    assert bytes(found["answer"].src_prefix) == b"question:"
    assert bytes(found["answer"].separator) == b"context:"
    stated = {
        "translation_zh_to_en": {"prefix": "zh2en: "},
        "summarization": {"prefix": "tl;dr: "},
        "odd": 7,
        "other": {"prefix": "x"},
    }
    found = tasks(tmp_path, "t5", task_specific_params=stated)
    assert {name: bytes(task.src_prefix) for name, task in found.items()} == {
        "translate:en": b"zh2en:", "summarize": b"tl;dr:", "answer": b"question:",
    }  # fmt: skip
    assert tasks(tmp_path, "mt5") == {"summarize": Task()}


def test_bart(tmp_path: Path) -> None:
    assert tasks(tmp_path, "bart", bos_token_id=0, decoder_start_token_id=2) == {"summarize": Task((0,))}
    (tmp_path / "model" / "generation_config.json").write_text('{"forced_bos_token_id": 0}', encoding="utf-8")
    assert tasks(tmp_path, "bart", bos_token_id=0, decoder_start_token_id=2) == {"summarize": Task((0,), (2, 0))}
    assert tasks(tmp_path, "unheard-of") == {}


@pytest.mark.parametrize("kind", ["marian", "mbart", "m2m_100", "t5", "mt5", "bart"])
def test_files_that_say_nothing(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    folder.mkdir()
    for name in ("tokenizer_config.json", "generation_config.json"):
        (folder / name).write_text('{"source_lang": [], "target_lang": {}, "name_or_path": 7}', encoding="utf-8")
    odd = {"task_specific_params": [7], "_name_or_path": [], "decoder_start_token_id": "x", "bos_token_id": -1.5}
    special = [*MBART_50, *NLLB]
    assert isinstance(tasks(tmp_path, kind, special, folder.name, **odd), Mapping)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[1]", "must hold"), (b"[" * 10**6, "too deeply"), (b"\0", "not valid"), (b"\xff", "not valid")],
)
def test_damaged_files(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as caught:
        tasks(tmp_path, "t5")
    assert name in str(caught.value) and "\n" not in str(caught.value)


# --- stored with a checkpoint ---


def test_all_pairs_are_stored_as_their_languages() -> None:
    model = ModelConfig(src_vocab_size=2000, tgt_vocab_size=2000)
    for every in (
        AllPairs({"en": 5}, {"en": 5, "zh": 6}, (2,)),
        AllPairs({"en": 5, "zh": 6}, {"en": 5, "zh": 6}, (), code_last=True),
    ):
        config = CheckpointConfig(model, SpecialIds(0, 1, 1), tasks=every)
        values = json.loads(json.dumps(config.to_json()))
        assert list(values["tasks"]) == ["translate:*"]
        again = CheckpointConfig.from_json(values)
        assert again == config
        assert dict(again.tasks) == dict(every)
    config = CheckpointConfig(model, SpecialIds(0, 1, 1), tasks={"answer": Task(src_prefix=(3,), separator=(4,))})
    assert CheckpointConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    "values", [{"sources": {"en": "x"}, "targets": {}}, {"sources": {}, "targets": {"zh": -1}}, {"sources": {}}]
)
def test_damaged_pairs(values: dict[str, Any]) -> None:
    config = CheckpointConfig(ModelConfig(src_vocab_size=9, tgt_vocab_size=9), SpecialIds(0, 1, 1)).to_json()
    with pytest.raises(ConfigError):
        CheckpointConfig.from_json({**config, "tasks": {"translate:*": values}})

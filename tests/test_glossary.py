"""Glossaries: read, found in texts, and kept to by translations and their maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tx.model.attending import Attender
from tx.model.config import GenerationConfig
from tx.model.errors import InputError, UsageError
from tx.model.glossary import Glossary
from tx.model.pipeline import Translator
from tx.model.protect import SLOTS, Span

from .test_pipeline import save_model


def found(glossary: Glossary, text: str, source: str = "en", target: str = "zh") -> list[tuple[str, str]]:
    return [(text[span.start : span.end], span.output) for span in glossary.find(text, source, target)]


# --- reading ---


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(
        "\ufeff# names\r\nneural network\t神经网络\r\n\r\nNLP\t自然语言处理\t\r\n \r\nNLP\t自然语言处理\n".encode()
    )
    glossary = Glossary.read(path)
    assert glossary.terms == [("neural network", "神经网络"), ("NLP", "自然语言处理")]
    assert glossary.languages is None and len(glossary) == 2


def test_a_first_line_of_languages() -> None:
    glossary = Glossary.parse("# of our shop\nen\tzh\ncart\t购物车\n")
    assert glossary.languages == ("en", "zh") and glossary.terms == [("cart", "购物车")]
    assert Glossary.parse("cart\t购物车\nen\tzh\n").languages is None
    assert Glossary.parse("ok\tok\n").languages is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nno tab", "line 2: write a term, one tab, and its translation (it has no tab)"),
        ("a\t\n", "line 1: write a term, one tab, and its translation (one of the two is empty)"),
        ("\n\ta", "line 2: write a term, one tab, and its translation (one of the two is empty)"),
        ("a\tb\tc", "line 1: write a term, one tab, and its translation (it has 2 tabs)"),
        ("cat\t猫\n#\ncat\t猫咪\n", "line 3: 'cat' stands in line 1 with another translation"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Glossary.read(path)
    assert str(caught.value) == f"glossary {path}, {message}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the glossary .*nowhere.tsv: No such file"):
        Glossary.read(tmp_path / "nowhere.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"a\tb\ncaf\xe9\tx\n")
    with pytest.raises(InputError, match="line 2 is not UTF-8"):
        Glossary.read(tmp_path / "latin.tsv")


# --- finding ---


def test_the_longest_term_that_begins_first() -> None:
    glossary = Glossary([("neural", "神经"), ("neural network", "神经网络"), ("network card", "网卡"), ("a", "一")])
    assert found(glossary, "A neural network card, a neural net") == [
        ("A", "一"),
        ("neural network", "神经网络"),
        ("a", "一"),
        ("neural", "神经"),
    ]


def test_words_are_not_cut() -> None:
    glossary = Glossary([("cat", "猫"), ("C++", "C++语言"), ("5", "五")])
    assert found(glossary, "cats, a concat, cat_1 and tomcat") == [
        ("cats", "猫"),
        ("cat", "猫"),
    ]  # cat_1: _ is no letter
    assert found(glossary, "the cat's cat-like Cat. 我的cat很好") == [
        ("cat", "猫"),
        ("cat", "猫"),
        ("Cat", "猫"),
        ("cat", "猫"),
    ]
    assert found(glossary, "55 5 15 C++ C++11") == [("5", "五"), ("C++", "C++语言"), ("C++", "C++语言")]


def test_capitals() -> None:
    glossary = Glossary([("Apple", "苹果公司"), ("IT", "信息技术"), ("iPhone", "苹果手机"), ("It", "它")])
    assert found(glossary, "apple APPLE iphone iPhone") == [
        ("apple", "苹果公司"),
        ("APPLE", "苹果公司"),
        ("iPhone", "苹果手机"),
    ]
    assert found(glossary, "IT it") == [("IT", "信息技术"), ("it", "它")]


def test_plurals_of_english_terms() -> None:
    glossary = Glossary(
        [("neural network", "神经网络"), ("box", "盒子"), ("Query", "查询"), ("key", "键"), ("CPU", "处理器")]
    )
    text = "Neural networks, BOXES and boxs; queries, querys, keys, CPUs CPUS cpus, a neural network's key"
    assert [term for term, _ in found(glossary, text)] == [
        "Neural networks",
        "BOXES",
        "queries",
        "keys",
        "CPUs",
        "neural network",
        "key",
    ]
    assert found(glossary, "networks, keys", "de", "zh") == []
    assert found(Glossary([("key", "键"), ("a", "一"), ("it", "它")]), "as its keys", "eng_Latn") == [("keys", "键")]
    own = Glossary([("datum", "一"), ("good", "好"), ("goods", "货物")], ("en", "zh"))
    assert found(own, "a good, goods, datums") == [("good", "好"), ("goods", "货物"), ("datums", "一")]
    back = Glossary([("猫", "cat"), ("Hund", "狗")], ("zh", "en"))
    assert own.find("a good", "en", "zh") == [Span(2, 6, "好")]  # a slice for the longer one ends there too
    assert found(back, "cats Hunds 狗s", "en", "zh") == [("cats", "猫"), ("狗", "Hund")]


def test_chinese_terms_stand_anywhere() -> None:
    glossary = Glossary([("神经网络", "neural net"), ("网络", "web"), ("A股", "A-share")])
    assert found(glossary, "我爱神经网络和网络，A股，BA股", "zh", "en") == [
        ("神经网络", "neural net"),
        ("网络", "web"),
        ("A股", "A-share"),
    ]


def test_directions() -> None:
    both = Glossary([("cat", "猫"), ("kitty", "猫"), ("dog", "狗")], ("en", "zh"))
    assert found(both, "a cat 猫") == [("cat", "猫")]
    assert found(both, "猫和 dog", "zh", "en") == [("猫", "cat")]
    assert found(both, "cat", "eng_Latn", "zho_Hans") == [("cat", "猫")]
    assert found(both, "cat 猫", "en", "fr") == []
    free = Glossary([("cat", "猫")])
    assert found(free, "cat", "fr", "de") == [("cat", "猫")]


def test_letters_that_change_their_number() -> None:
    text = "İİ cat"
    assert found(Glossary([("cat", "猫")]), text) == [("cat", "猫")]


# --- keeping to it ---


@pytest.fixture(scope="module")
def slotted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "slotted", more_pieces=SLOTS)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "plain")


GLOSSARY = Glossary([("old cat", "老猫"), ("cat", "小猫"), ("mat", "垫")], ("en", "zh"))
TEXT = "the old cat and a cat sat on the mat at example.com/cat."


@pytest.mark.parametrize("beam", [1, 3])
def test_terms_come_out(slotted: Path, plain: Path, beam: int) -> None:
    settings = GenerationConfig(max_length_factor=3.0, max_length_constant=20)
    for model in (slotted, plain):
        translator = Translator(model, threads=1, engine="numpy")
        (result,) = translator.translate([TEXT], glossary=GLOSSARY, beam_size=beam, settings=settings)
        for term in ("老猫", "小猫", "垫", "example.com/cat"):
            assert term in result.text
        assert "lost" not in result.flags
        (without,) = translator.translate([TEXT], beam_size=beam, settings=settings)
        assert "老猫" not in without.text


def test_a_term_that_did_not_come_out_is_said(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tx.model.constrained.outputs", lambda runtime, asked, *_: [[] for _ in asked])
    (result,) = Translator(plain, threads=1).translate(["a cat"], glossary=GLOSSARY)
    assert "lost" in result.flags


def test_a_text_that_is_nothing_but_a_term(slotted: Path, plain: Path) -> None:
    for model in (slotted, plain):
        (result,) = Translator(model, threads=1).translate([" Old cat! "], glossary=GLOSSARY)
        assert (result.text, result.flags, result.score) == (" 老猫! ", (), 0.0)


def test_given_stretches_go_before_terms(slotted: Path) -> None:
    (result,) = Translator(slotted, threads=1).translate(
        ["see a cat now"], glossary=GLOSSARY, protected=[[(4, 9)]], beam_size=1
    )
    assert "a cat" in result.text and "小猫" not in result.text


def test_maps_show_the_terms(slotted: Path) -> None:
    attender = Attender(slotted, threads=1)
    translator = Translator(attender.runtime)
    (expected,) = translator.translate(["we see an old cat"], glossary=GLOSSARY)
    [map] = attender.attend("we see an old cat", glossary=GLOSSARY)
    assert map.output == expected.text and "老猫" in map.output
    assert map.source == "we see an 老猫"
    assert "老猫" in [token.text.strip() for token in map.tgt]
    with pytest.raises(UsageError, match="glossary means nothing to the task summarize"):
        attender.attend("we see", task="summarize", glossary=GLOSSARY)


def test_spans() -> None:
    assert GLOSSARY.find("a mat", "en", "zh") == [Span(2, 5, "垫")]

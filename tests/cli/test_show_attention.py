"""`tx show-attention` on the default weights: what is drawn is straight, says what was computed, and fits everywhere."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from wcwidth import wcswidth

import tx
from tx.cli.main import main
from tx.model import attending
from tx.model.errors import InputError
from tx.model.results import AttentionMap
from tx.model.runtime import Runtime

SENTENCE = "The dog didn't bark because it was asleep."
TEXTS = {
    "one word": "Hello",
    "five words": "We will meet you tomorrow.",
    "twenty words": "When the train arrived at the small station, nobody was there to help us with our bags and books.",
    "sixty words": "My grandmother, who lived in a small village near the sea, told us every evening before we went "
    "to bed the same long story about a fisherman, his three clever daughters and a golden fish, and although we "
    "knew each word of it by heart, we always asked her to begin again from the start and to leave nothing out at all",
    "Chinese": "昨天晚上我们在河边看见了三只白色的鸟。",
    "mixed": "我用 Python 3 写了一个 app，叫 tx。",
    "emoji": "My family 👨‍👩‍👧‍👦 is here 🇫🇷 and I am happy 👍🏽 today",
}
FRAMES = str.maketrans("+|-", "+│─")


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(real_weights: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("TX_MODEL", str(real_weights))
    monkeypatch.setenv("TX_ENGINE", "numpy")
    for name in ("COLUMNS", "NO_COLOR", "COLORTERM", "COLORFGBG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(attending, "Attender", CachedAttender)

    def run_tx(*arguments: str, stdin: bytes = b"", terminal: bool = False) -> Result:
        stream = io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        capsysbinary.readouterr()
        status = main(["show-attention", *arguments])
        out, err = capsysbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return run_tx


class CachedAttender(attending.Attender):
    """Has loaded the model once for all, and does not compute again what it has computed: the same maps are drawn in many
    ways here."""

    runtimes: ClassVar[dict[str, Runtime]] = {}
    known: ClassVar[dict[str, list[AttentionMap]]] = {}
    aligned: ClassVar[dict[str, list[tuple[int, int]]]] = {}

    def __init__(self, model: str | None = None, **settings: Any) -> None:
        key = f"{model} {settings}"
        if key not in self.runtimes:
            self.runtimes[key] = Runtime(model, **settings)
        super().__init__(self.runtimes[key])

    def attend(self, text: str, **settings: Any) -> list[AttentionMap]:
        key = f"{text} {settings}"
        if key not in self.known:
            self.known[key] = super().attend(text, **settings)
        return self.known[key]

    def align(self, map: AttentionMap) -> list[tuple[int, int]]:
        key = f"{map.task} {map.source} {map.output}"
        if key not in self.aligned:
            self.aligned[key] = super().align(map)
        return self.aligned[key]


def frames(drawing: str) -> list[list[str]]:
    """The lines of each frame with its names, from the first that has a name over a column to the last border."""
    blocks: list[list[str]] = []
    inside = False
    for line in drawing.splitlines():
        framed = re.search("[┌│└]", line) is not None
        if framed:
            if not inside:
                blocks.append([])
            blocks[-1].append(line)
        inside = framed and "└" not in line
    return blocks


def grid_of(drawing: str) -> list[tuple[str, list[str]]]:
    """The rows of a drawing with --values: the name, and the numbers of its cells."""
    rows = [
        line.split("│") for line in drawing.splitlines() if line.count("│") == 2 and re.search(r"\.\d\d|\d\.\d", line)
    ]
    return [(name.strip(), re.findall(r"\d\.\d|\.\d\d", cells)) for name, cells, _ in rows]


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_the_numbers_drawn_are_those_of_the_forced_pass(run: Run) -> None:
    drawn = grid_of(run("--values", "--layer", "2", "--head", "3", "--pieces", "I love NLP").out)
    found = tx.attend("I love NLP")
    assert [name for name, _ in drawn] == [token.text.replace(" ", "▁") for token in found.tgt]
    values = np.array([[float(value) for value in row] for _, row in drawn])
    assert np.abs(values - found.cross[1, 2]).max() <= 0.051  # 1.0 stands for 0.995 and more
    assert np.abs(np.where(values < 1, values, found.cross[1, 2]) - found.cross[1, 2]).max() <= 0.0051


def test_rows_are_what_was_written_the_end_piece_included(run: Run) -> None:
    translated = tx.translate(SENTENCE)
    rows = grid_of(run("--values", SENTENCE).out)
    assert rows[-1][0] == "</s>"
    assert "".join(name for name, _ in rows[:-1]) == translated
    assert f"{SENTENCE} → {translated}" in " ".join(run(SENTENCE).out.split())


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_it_fits_and_is_straight_at_every_width(run: Run, name: str, width: int) -> None:
    for options in ([], ["--head", "all"], ["--kind", "encoder", "--values"], ["--kind", "decoder", "--pieces"]):
        done = run("--width", str(width), *options, "--", TEXTS[name])
        assert done.status == 0, done.err
        assert done.out.strip()
        assert "\x1b" not in done.out
        for line in done.out.splitlines():
            assert 0 <= wcswidth(line) <= width, line
        for block in frames(done.out):
            assert len({wcswidth(line) for line in block}) == 1, block
        if width >= 80 and name != "sixty words":
            assert frames(done.out)


def test_columns_decide_where_no_width_is_given(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    narrow = run(TEXTS["twenty words"]).out
    assert narrow == run("--width", "50", TEXTS["twenty words"]).out
    assert max(map(wcswidth, narrow.splitlines())) <= 50


def test_a_narrow_terminal_gets_a_list_that_says_what_it_leaves_out(run: Run) -> None:
    done = run("--width", "30", SENTENCE)
    assert not frames(done.out)
    assert "strongest of" in done.out
    assert re.search(r"→ \w+ 0\.\d\d", done.out)
    assert "0.00" not in run("--width", "30", "--top", "1", SENTENCE).out


def test_a_row_shows_where_a_word_looks_layer_by_layer(run: Run) -> None:
    done = run("--kind", "encoder", "--row", "it", "--values", SENTENCE)
    rows = grid_of(done.out)
    assert [name for name, _ in rows] == [f"layer {n}" for n in range(1, 7)]
    for _, row in rows:
        assert sum(map(float, row)) == pytest.approx(1, abs=0.06)
    heads = grid_of(run("--kind", "encoder", "--row", "IT", "--head", "all", "--layer", "3", "--values", SENTENCE).out)
    assert [name for name, _ in heads] == [f"head {n}" for n in range(1, 9)]
    assert len(grid_of(run("--kind", "encoder", "--row", "it", "--layer", "2", "--values", SENTENCE).out)) == 1


def test_a_row_that_is_not_there_is_refused(run: Run) -> None:
    done = run("--row", "cat", SENTENCE)
    assert (done.status, done.out) == (2, "")
    assert "--row cat" in done.err and done.err.count("\n") == 1


def test_hidden_special_pieces_take_rows_and_columns_with_them(run: Run) -> None:
    all_of_it, hidden = (grid_of(run("--values", *options, SENTENCE).out) for options in ([], ["--no-special"]))
    assert [row[0] for row in hidden] == [row[0] for row in all_of_it[:-1]]
    assert all(len(row) == len(all_of_it[0][1]) - 1 for _, row in hidden)
    out = run("--no-special", SENTENCE).out
    assert "</s>" not in out and "a row adds up to less than 1" in out
    assert "adds up to" not in run(SENTENCE).out
    assert "a row adds up to more than 1" in run("--head", "max", SENTENCE).out


def test_colour_only_where_it_is_wanted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run(SENTENCE).out
    assert "\x1b[" in run(SENTENCE, terminal=True).out
    assert "\x1b[" in run("--color", "always", SENTENCE).out
    assert "\x1b" not in run("--color", "never", SENTENCE, terminal=True).out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", run("--color", "always", SENTENCE).out)
    assert plain == run(SENTENCE).out
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in run(SENTENCE, terminal=True).out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(SENTENCE, terminal=True).out


def test_light_and_dark_terminals_get_other_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dark = run("--color", "always", SENTENCE).out
    light = run("--color", "always", "--background", "light", SENTENCE).out
    assert dark != light
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert run("--color", "always", SENTENCE).out == light


def test_ascii_draws_with_nothing_else(run: Run) -> None:
    out = run("--ascii", TEXTS["Chinese"]).out
    source, output = TEXTS["Chinese"], tx.translate(TEXTS["Chinese"])
    assert set(out) - set(source) - set(output) <= set(map(chr, range(128)))


def test_control_and_bidi_characters_do_not_get_to_the_terminal(run: Run) -> None:
    done = run("a \x1b[31mred\x1b[0m \u202eword\u202c here\x07")
    assert done.status == 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", done.out)


def test_an_answer_is_shown_by_the_head_that_points(run: Run) -> None:
    done = run("--task", "qa", "--question", "Where did they meet?", "Anna met Bob at the old bridge. It rained.")
    assert done.status == 0
    assert "start: " in done.out and "end: " in done.out and "head 1 of 8" in done.out


def test_a_summary_is_shown_with_what_it_read(run: Run) -> None:
    text = "The shop opens at nine. It sells bread, cakes and coffee. On Sundays it is closed all day."
    assert run("--task", "summarize", text).out.startswith("summarize: The shop opens at nine.")


def test_a_summary_that_is_not_the_one_given_is_said_to_be(run: Run) -> None:
    text = "The old bridge was built in 1890 by the city. Anna met Bob there in spring. They married a year later."
    assert "gives a sentence of this text" in run("--task", "summarize", text).err
    assert run("--task", "summarize", "Only one sentence stands here.").err.count("warning") == 1
    assert "warning" not in run("--task", "summarize", "--target", "A bridge.", text).err


def test_what_is_copied_beside_the_sentences_is_said_to_be(run: Run) -> None:
    assert "copied" in run("我爱你 💩").err
    assert run("我爱你").err == ""


def test_places_count_from_the_start_of_the_text(run: Run, tmp_path: Path) -> None:
    text = "\n\n   Hello there.\n  How are you?\n"
    file = tmp_path / "text.txt"
    file.write_text(text, encoding="utf-8")
    for part in json.loads(run("--json", "-i", str(file)).out)["parts"]:
        assert text[part["offset"] :].startswith(part["source"])


def test_a_long_chinese_text_is_said_in_full(run: Run) -> None:
    text = "昨天晚上" + "我们在河边看见了三只白色的鸟，" * 4 + "然后回家了。"
    assert text in run(text, "--target", "We saw birds.").out.replace("\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--row", "I", "--format", "svg"],
        ["--top", "2", "--json"],
        ["--list", "--format", "csv"],
        ["--ascii", "--format", "html"],
        ["--values", "--json"],
        ["--pieces", "--format", "npz"],
        ["--layer", "1", "--format", "moses"],
        ["--head", "all", "--format", "html"],
        ["--head", "all", "--values"],
        ["--kind", "all"],
        ["--kind", "rollout", "--head", "all"],
        ["--task", "summarize", "--to", "zh"],
        ["--task", "summarize", "--part", "1"],
        ["--task", "qa", "--question", "Who?", "--beam", "2"],
        ["-o", "picture.jpg"],
    ],
)
def test_an_option_that_would_do_nothing_is_refused(run: Run, arguments: list[str]) -> None:
    done = run(*arguments, SENTENCE)
    assert (done.status, done.out) == (2, "")
    assert re.search("--[a-z]", done.err) and "_" not in done.err and done.err.count("\n") == 1


def test_json_has_all_kinds_if_asked(run: Run) -> None:
    (part,) = json.loads(run("--json", "--kind", "all", SENTENCE).out)["parts"]
    assert [one["kind"] for one in part["maps"]] == ["cross", "encoder", "decoder"]


def test_a_narrow_terminal_shortens_names_not_numbers(run: Run) -> None:
    out = " ".join(run("--width", "20", "Donaudampfschifffahrtsgesellschaft").out.split())
    assert re.search(r"\d\.\d,? of \d\.\d at most", out) and re.search(r"strongest: \S+ → \S+ \d\.\d\d", out)


def test_a_target_is_taken_as_it_is(run: Run) -> None:
    done = run("--target", "我爱猫。", "--values", "I love dogs.")
    assert "".join(name for name, _ in grid_of(done.out)) == "我爱猫。</s>"


def test_each_sentence_has_its_map(run: Run) -> None:
    text = "Good morning. Where is the station? Thank you."
    done = run(text)
    assert [f"part {n} of 3" in done.out for n in (1, 2, 3)] == [True] * 3
    second = run("--part", "2", text)
    assert "part 2 of 3" in second.out and "part 1" not in second.out and second.out in done.out
    assert run("--part", "4", text).status == 1


# -- alignments -------------------------------------------------------------------------------------------------------


def test_moses_is_one_line_for_each_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("I love dogs. She loves cats.\n12345\n\nGood morning\n", encoding="utf-8")
    done = run("--format", "moses", "-i", str(file))
    both, digits, blank, last = done.out.splitlines()
    assert (digits, blank) == ("", "") and "line 2: " in done.err
    assert re.fullmatch(r"\d+-\d+( \d+-\d+)*", last)
    first = run("--format", "moses", "I love dogs.").out.split()
    assert both.split()[: len(first)] == first
    second = [tuple(map(int, link.split("-"))) for link in both.split()[len(first) :]]
    alone = [tuple(map(int, link.split("-"))) for link in run("--format", "moses", "She loves cats.").out.split()]
    written = {j - b for (_, j), (_, b) in zip(second, alone, strict=True)}
    assert [(i - 4, j - min(written)) for i, j in second] == alone and len(
        written
    ) == 1  # "I love dogs ." are four words


def test_json_says_where_the_aligned_words_stand(run: Run) -> None:
    (part,) = json.loads(run("--json", "--target", "狗爱猫", "dogs love cats").out)["parts"]
    read, written = part["alignment"]["source_words"], part["alignment"]["output_words"]
    pairs = [
        (part["source"][slice(*read[i])], part["output"][slice(*written[j])]) for i, j in part["alignment"]["links"]
    ]
    assert pairs == [("dogs", "狗"), ("love", "爱"), ("cats", "猫")]


def test_the_words_of_a_given_translation_are_aligned(run: Run) -> None:
    done = run("--target", "狗爱猫", "--format", "moses", "dogs love cats")
    assert done.out == "0-0 1-1 2-2\n"
    drawn = run("--target", "狗爱猫", "dogs love cats").out
    assert "aligned by layer 1, head 6: dogs = 狗, love = 爱, cats = 猫" in drawn


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder", "rollout"])
@pytest.mark.parametrize("options", [[], ["--pieces"]])
def test_every_exported_row_adds_up_to_one(run: Run, kind: str, options: list[str]) -> None:
    for text in (text for name, text in TEXTS.items() if name != "sixty words"):
        document = json.loads(run("--json", "--kind", kind, *options, "--", text).out)
        for part in document["parts"]:
            for one in part["maps"]:
                weights = np.array(one["weights"])
                heads = 1 if kind == "rollout" else 8
                layers = 6 if kind in ("encoder", "rollout") else 2
                assert weights.shape == (layers, heads, len(one["rows"]), len(one["columns"]))
                assert np.abs(weights.sum(-1) - 1).max() <= 1e-5
                assert one["rows_sum_to_one"] is True


def test_pieces_in_json_are_those_of_the_pass(run: Run) -> None:
    document = json.loads(run("--json", "--pieces", SENTENCE).out)
    found = tx.attend(SENTENCE)
    (part,) = document["parts"]
    (one,) = part["maps"]
    assert (part["source"], part["output"]) == (SENTENCE, tx.translate(SENTENCE))
    assert [row["text"] for row in one["rows"]] == [token.text for token in found.tgt]
    assert one["rows"][-1]["text"] == "</s>"
    for column in one["columns"]:
        assert column["special"] or SENTENCE[column["start"] : column["end"]] == column["text"]
    assert np.abs(np.array(one["weights"]) - found.cross).max() <= 1e-7
    chosen = json.loads(run("--json", "--layer", "1", "--head", "mean", SENTENCE).out)["parts"][0]["maps"][0]
    assert (chosen["layers"], chosen["heads"]) == (["1"], ["mean"])


@pytest.mark.parametrize(
    ("ending", "start"),
    [("json", b"{"), ("csv", b"part,"), ("npz", b"PK"), ("svg", b"<"), ("png", b"\x89PNG"), ("html", b"<!")],
)
def test_the_ending_of_a_file_decides_its_format(run: Run, tmp_path: Path, ending: str, start: bytes) -> None:
    for option in ("-o", "--out"):
        file = tmp_path / f"map{option}.{ending}"
        done = run(option, str(file), SENTENCE)
        assert (done.status, done.out) == (0, "")
        assert file.read_bytes().startswith(start)
    if ending == "png":
        command = [sys.executable, "-m", "tx.cli", "show-attention", "--format", ending, "Hello"]
        piped = subprocess.run(command, capture_output=True, timeout=60)
        assert piped.returncode == 0
        assert piped.stdout.startswith(start)


def test_no_picture_is_poured_into_a_terminal(run: Run) -> None:
    done = run("--format", "png", SENTENCE, terminal=True)
    assert (done.status, done.out) == (2, "")
    assert "-o FILE.png" in done.err


# -- what cannot be shown ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([""], 1, "no text"),
        (["12345"], 1, "no letters"),
        (["--to", "en", "Good morning"], 1, "'en'"),
        (["one", "two"], 2, "one text at a time"),
        (["--kind", "self", "hi"], 2, "cross, encoder, decoder, rollout"),
        (["--layer", "7", "hi"], 2, "from 1 to 2"),
        (["--layer", "x", "hi"], 2, "--layer"),
        (["--head", "9", "hi"], 2, "from 1 to 8"),
        (["--head", "0", "hi"], 2, "--head"),
        (["--width", "19", "hi"], 2, "20"),
        (["--format", "gif", "hi"], 2, "json"),
        (["--json", "--format", "svg", "hi"], 2, "not both"),
        (["--task", "qa", "hi"], 2, "--question"),
        (["--question", "who?", "hi"], 2, "--question"),
        (["--kind", "all", "--format", "svg", "hi"], 2, "choose one kind"),
        (["--task", "summarize", "--format", "moses", "hi there"], 2, "translation"),
        (["--target", "好", "Good morning. Good night."], 1, "one sentence"),
        (["-i", "no-such-file.txt"], 1, "no-such-file.txt"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(run: Run, arguments: list[str], status: int, words: str) -> None:
    done = run(*arguments)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith("tx: error: ") and done.err.count("\n") == 1
    assert words in done.err


def test_text_from_a_pipe_and_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(SENTENCE + "\n", encoding="utf-8")
    expected = run(SENTENCE).out
    assert run("-i", str(file)).out == expected
    assert run(stdin=SENTENCE.encode()).out == expected
    assert run("-", stdin=SENTENCE.encode() + b"\n").out == expected


def test_python_gives_the_same(run: Run) -> None:
    found = tx.attend(SENTENCE)
    assert isinstance(found, tx.AttentionMap)
    assert found.cross.shape == (2, 8, len(found.tgt), len(found.src))
    with pytest.raises(InputError, match="2 parts"):
        tx.attend("Good morning. Good night.")
    assert tx.attend("Good morning. Good night.", part=2).source == "Good night."

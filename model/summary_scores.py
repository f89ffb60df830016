"""Summaries of the texts of a file, scored with ROUGE (Lin 2004) beside two baselines of the same length."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import segment
from .errors import InputError, UsageError
from .evaluation import first_rows, read_rows
from .summarizing import n_words

if TYPE_CHECKING:
    from .summarizing import Summarizer

ROUGE = ("rouge1", "rouge2", "rougeL")
NUMBER_OR_WORD = rf"\d+(?:[.,]\d+)*|(?:(?!{segment.HAN})[^\W\d_])+"  # Chinese has no capitals: its words do not count


def evaluate_summaries(
    summarizer: Summarizer, path: str | Path, limit: int | None = None, **settings: Any
) -> dict[str, Any]:
    """ROUGE-1, -2 and -L of the summaries of a file.

    `path` is a JSON Lines file, .gz or not, with the fields text and summary; `limit` takes the first rows only;
    `settings` are those of Summarizer.summarize.

    Returns `rouge1`, `rouge2`, `rougeL` (F1, the mean over the rows, 0 to 100), the same of `lead` (the text's first words)
    and of `lexrank` (lexrank below), both of as many words as our summary has; `made_up`, the share of the summaries'
    numbers and capitalised words that the text does not have, and `names_and_numbers`, how many of these there are;
    `words` and `reference_words`, the mean lengths (n_words); `n`, `seconds` (the summing up alone), and `signature`, how
    ROUGE counts. Raises UsageError for a limit below 1 or where rouge-score or sumy is not installed, InputError with the
    line for a file that cannot be used.
    """
    rows = first_rows(read_rows(path, ("text", "summary")), limit)
    if not rows:
        raise InputError(f"{path} has no texts")
    try:
        import sumy  # noqa: F401 - asked for before anything is summed up
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise UsageError('evaluation needs rouge-score and sumy: pip install "rouge-score" "sumy>=0.11"') from error
    scorer = RougeScorer(list(ROUGE), tokenizer=_Words())
    sums: dict[str, Counter[str]] = {"": Counter(), "lead": Counter(), "lexrank": Counter()}
    n_new = n_marked = 0
    words = reference_words = seconds = 0.0
    for row in rows:
        text, reference = row["text"], row["summary"]
        started = time.perf_counter()
        summary = summarizer.summarize(text, **settings).text
        seconds += time.perf_counter() - started
        length = len(rouge_words(summary))
        rivals = {"": summary, "lead": lead(text, length), "lexrank": lexrank(text, length)}
        for name, rival in rivals.items():
            for kind, score in scorer.score(reference, rival).items():
                sums[name][kind] += score.fmeasure
        new, marked = names_and_numbers(summary, text)
        n_new, n_marked = n_new + new, n_marked + marked
        words += n_words(summary)
        reference_words += n_words(reference)
    n = len(rows)
    means = {name: {kind: 100 * total[kind] / n for kind in ROUGE} for name, total in sums.items()}
    return {
        **means[""],
        "lead": means["lead"],
        "lexrank": means["lexrank"],
        "made_up": n_new / max(1, n_marked),
        "names_and_numbers": n_marked,
        "words": words / n,
        "reference_words": reference_words / n,
        "n": n,
        "seconds": seconds,
        "signature": "rouge-score, F1, no stemming, each Chinese character is a word",
    }


def rouge_words(text: str) -> list[str]:
    """What ROUGE counts: words in lower case, each Chinese character by itself."""
    return re.findall(r"\w+", re.sub(segment.HAN, r" \g<0> ", text.lower()))


class _Words:
    """A tokenizer for rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        return rouge_words(text)


def lead(text: str, n: int) -> str:
    """The beginning of a text, as long as `n` words of ROUGE."""
    return " ".join(rouge_words(text)[:n])


def lexrank(text: str, n: int) -> str:
    """`n` words of ROUGE of the sentences that LexRank (Erkan and Radev 2004, as sumy has it) puts first, in the order of
    the text; of the last sentence that there is room for, its beginning.

    Sentences end where ours do. English words are stemmed and stop words left out, both as in sumy; in Chinese the words
    are pairs of characters, for sumy's own would need a dictionary.
    """
    import numpy as np
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.nlp.stemmers import Stemmer
    from sumy.summarizers.lex_rank import LexRankSummarizer
    from sumy.utils import get_stop_words

    if segment.guess_language(text) == "zh":
        ranks = LexRankSummarizer()
    else:
        ranks = LexRankSummarizer(Stemmer("english"))
        ranks.stop_words = get_stop_words("english")
    best: list[Any] = []

    def choose(sentences: Sequence[Any]) -> Sequence[Any]:  # gets all of them, the best first
        room = n
        for one in sentences:
            best.append((one.order, rouge_words(str(one.sentence))[: max(0, room)]))
            room -= len(best[-1][1])
        return ()

    sentences = [Sentence(text[a:b], _SumyWords()) for a, b in segment.sentences(text)]
    with np.errstate(all="ignore"):  # where no two sentences are alike, sumy divides by zero and keeps their order
        ranks(ObjectDocumentModel([Paragraph(sentences)]), choose)
    return " ".join(word for _, words in sorted(best) for word in words)


class _SumyWords:
    """A tokenizer for sumy: words, and pairs of neighbouring Chinese characters."""

    def to_words(self, sentence: str) -> tuple[str, ...]:
        words: list[str] = []
        for part in re.findall(r"\w+", re.sub(rf"{segment.HAN}+", r" \g<0> ", sentence)):
            han = re.match(segment.HAN, part) and len(part) > 1
            words += [part[i : i + 2] for i in range(len(part) - 1)] if han else [part]
        return tuple(words)


def names_and_numbers(summary: str, text: str) -> tuple[int, int]:
    """How many numbers and capitalised words of the summary the text does not have (a sentence's first word may be there
    in small letters), and how many there are."""
    there = set(re.findall(NUMBER_OR_WORD, text))
    new = total = 0
    for first, last in segment.sentences(summary):
        for place, word in enumerate(re.findall(NUMBER_OR_WORD, summary[first:last])):
            if word[0].isdigit() or word[0].isupper():
                total += 1
                new += not (word in there or (place == 0 and word.lower() in there))
    return new, total

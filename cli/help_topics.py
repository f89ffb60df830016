"""`tx help TOPIC`: short texts on what is common to several commands, and the help of a command."""

from __future__ import annotations

import difflib
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from ..model.errors import UsageError
from .text_io import ExitStatus, Output

WIDEST = 100  # columns; longer lines are hard to read

# Indented lines stay as they are, the others are wrapped.
TOPICS = {
    "streams": """
Results go to the standard output, everything else (warnings, notes, progress) to the standard error. Output is UTF-8 under every locale, and never wrapped or coloured in a file or a pipe.

`tx translate` reads its arguments, or the files of -i, or the standard input if there is neither; - is the standard input, and -- ends the options. Where text or files are given, the standard input is not touched.

    tx translate -- "-5 degrees"
    tail -f log | tx translate
    tx translate -i a.txt - -o both.txt < b.txt

One line out for one line in, in order. Blank lines, spaces at the ends, line ends (\\n and \\r\\n) and a missing last line end stay as they are; a byte order mark is dropped. A slow writer is answered line by line, a fast one in batches of 8 lines at first and up to 256; the lines are the same. A line of more than 65,536 bytes is translated in parts, which a warning says, so that memory stays bounded.

-o FILE appears when it is complete: an error or Ctrl-C leaves what was there. -o FOLDER/, --suffix .zh (a.txt gives a.zh.txt) and --in-place write a file for each file. One that cannot be read is said and left out, and the exit code is 1.

A progress bar shows itself after a second on a terminal's standard error, if results go elsewhere; --no-progress or -q leaves it away. -q leaves away all warnings and notes.

Ctrl-C and SIGTERM end the command at once; the lines finished before are out. A reader that closes the pipe (head) ends it silently, with exit code 0.
""",
    "long-runs": """
Three options of `tx translate` are for a corpus or a book. None of them changes the text of a line. (Of --batch-size and --max-memory that does not hold with --shortlist and with --precision int8 or bf16: a sentence may then come out in other words when others share its batch.)

    tx translate -i corpus.txt -o corpus.zh.txt --jobs auto
    tx translate -i corpus.txt --resume corpus.zh.txt
    tx translate -i corpus.txt -o corpus.zh.txt --max-memory 500M

--jobs N has N processes translate, each a batch of lines at a time; what they write comes in the order of the lines. They share one copy of the weights in memory. auto, or 0, is one for each core. Of a document (tx help formats) each process translates 256 paragraphs or the like at a time; of several files, one is read after the other. It needs a system that can fork: Linux, macOS, but not Windows. It is for the processor, not for --device cuda.

--resume FILE writes there, as -o does, and if the run is interrupted, by Ctrl-C, an error or a power cut, the same command goes on where it was. Until it is complete FILE.part has the results, and FILE.resume says how far they go. It goes on only with the same model, the same options that matter to the text (with --shortlist, int8 or bf16 also --batch-size and --max-memory), and an input whose beginning is as it was; otherwise it says what is not, and leaves all as it is. The standard input has to be fed again from its beginning. It is for plain lines.

--max-memory SIZE (500M, 2G) makes batches so small that all processes together should take no more than that. Where the model alone, or a single sentence, needs more, it says so and ends with exit code 1. Without it a batch takes a gigabyte at most, which only long lines with a wide beam or a large model come near.
""",
    "formats": """
`tx translate` of a file that is no plain text keeps all of it but the text. The format is that of its name's ending, or of --format.

    text      plain lines: one line out for one line in, as they come
    markdown  .md .markdown .mkd
    html      .html .htm .xhtml
    srt, vtt  .srt .vtt, subtitles; a sentence across cues is one sentence
    po        .po .pot, gettext: fills what is empty, marked as fuzzy
    json, jsonl  .json .jsonl .ndjson, the values of --field NAME
    csv, tsv  .csv .tsv .tab, the columns of --field NAME

    tx translate -i README.md -o README.zh.md
    tx translate -i page.html --suffix .zh
    curl -s https://example.org | tx translate --format html > page.html
    tx translate -i reviews.csv --field text --field title -o out.csv

Markdown: code, addresses, formulas, front matter and comments stay; headings, paragraphs, items, cells, the texts of links and pictures are translated. Between marks like **bold**, ~~strike~~ and ==mark== stands in the translation what stood there in the text; a paragraph comes out on one line.

HTML: translated are the texts, <title>, the content of <meta> that describes the page (description, keywords, og:title, twitter:description and the like), alt, title, placeholder, aria-label, aria-description, the value of buttons (<input type=submit, button, reset>), label of <option>. What stands in <code>, <kbd>, <samp>, <var>, <pre>, <textarea>, <script>, <style>, <svg>, or in an element with translate="no" or the class notranslate stays, and so do all other attributes. In a text that is translated, an entity such as &copy; or &#8212; becomes the character, &nbsp; a space; & and < are written as &amp; and &lt;.

Subtitles: what one person says is never joined with what another says (lines with a dash, or a name and a colon), nor with [music] and the like.

Such a document is read whole, and written when all of it is translated. Some formats need the extra: pip install "tx-transformer[formats]". --format text reads any file line by line.
""",
    "exit-codes": """
Every command tells the shell:

    0    done; also where the reader of a pipe closed it (tx translate | head)
    1    failed; one line on the standard error says what and where
    2    wrong usage: an option, its value, a language that the model lacks
    3    only with --strict: done, but something was cut, repeated itself, lost
         a number or an address, has one that is not in the text, was left
         untranslated, or was not read
    130  interrupted by Ctrl-C
    129, 143  asked to end by SIGHUP, SIGTERM

Lines that were finished before an error or a signal are out. --debug, or TX_DEBUG=1, shows a traceback with an error.
""",
    "json": """
--json prints one JSON object a line (JSON Lines), in UTF-8, for each line of the input, answer or summary. Names stay the same from release to release; new ones may be added. tx translate:

    source, translation   with the spaces at the ends of the line
    from, to              language codes
    score                 mean log-probability a piece, 0 to -infinity (null)
    flags                 what was noticed: split, cut, looped, lost, invented,
                          untranslated, copied (tx translate --help explains)
    alternatives          with --n-best: translation and score of each, the
                          first of them the translation itself
    alignment             with --align: source_words and output_words, places
                          as [start, end] in characters of source and of
                          translation, and links, pairs of their numbers

A line of more than 65,536 bytes gives several objects, with "split". The other commands say in their help what they print: tx qa --help, tx summarize --help, tx show-attention --help.

    tx translate --json < notes.txt | jq -r 'select(.flags != []) | .source'
""",
    "config": """
What you always want can stand in a file, whose keys are the long names of options: those at the top for every command that has such an option, those in a table for one command.

    model = "en-zh"
    threads = 2

    [translate]
    to = "zh"
    no-progress = true

    [evaluate.qa]
    threshold = 0.5

`tx config path` says where it is: $TX_CONFIG (empty for none), else $XDG_CONFIG_HOME/tx/config.toml, by default ~/.config/tx/config.toml. `tx config show` lists every setting, its value, and where that comes from.

A flag on the command line comes before the environment (TX_MODEL, TX_THREADS, TX_ENGINE, TX_DEVICE, TX_COLOR), that before the file, and the file before the default. What the file says of an option, --no-NAME leaves out: --no-json, --no-n-best (and --progress its no-progress). What does not go with the rest of a run (n-best with a web page) is left out too, with a note. A wrong key or value is an error with its line.
""",
    "models": """
A model is a name or a folder. "en-zh" comes with tx: English and Chinese, translation, summaries, answers, attention. Your own models lie in $XDG_DATA_HOME/tx/models (by default ~/.local/share/tx/models), each in a folder of its name.

    tx models list
    tx translate --model ./opus-mt-en-de "The house is old."
    tx models pull Helsinki-NLP/opus-mt-en-de

Folders of Hugging Face (Marian, BART, mBART, M2M100, NLLB, T5) and of Firefox and Bergamot work as they are. TX_MODEL or model in the configuration file sets another default. Nothing but `tx models pull` uses the network. `tx models --help` says more.
""",
    "attention": """
tx show-attention draws where the model looked while it wrote: the weights softmax(QK^T / sqrt(d_k)) of the very output that it made. A row belongs to what was written (or, in the encoder, read), its columns to what was looked at; each row adds up to 1.

    tx show-attention "I love NLP"
    tx show-attention "I love NLP" --head all --layer last
    tx show-attention "It was too tired to go." --kind encoder --row it
    tx show-attention "I love NLP" -o map.html
    tx show-attention "I love NLP" --json

Cross-attention is from the output to the text, encoder within the text, decoder within the output; a rollout multiplies the layers. Words are made of pieces: what is looked at adds up, how it is looked is averaged. --color auto, always or never, $TX_COLOR and NO_COLOR decide about colour.
""",
}


def show(names: Sequence[str], group: Any, program: str) -> ExitStatus:
    """Prints the topic or the help of the command of that name; without one, which there are. Raises UsageError."""
    with Output(None) as out:
        if not names:
            out.write(_overview(group, program))
        elif len(names) == 1 and names[0] in TOPICS:
            out.write(wrapped(TOPICS[names[0]]))
        else:
            out.write(_command(names, group, program))
    return ExitStatus.OK


def _overview(group: Any, program: str) -> str:
    topics, commands = ", ".join(TOPICS), ", ".join(name for name, one in group.commands.items() if not one.hidden)
    return wrapped(
        f"`{program} help TOPIC` or `{program} help COMMAND` says more.\n\nTopics: {topics}\n\nCommands: {commands}\n"
    )


def _command(names: Sequence[str], group: Any, program: str) -> str:
    """The help of a command, or of one in another: ["evaluate", "qa"]."""
    command, context = group, group.make_context(program, [], resilient_parsing=True)
    for name in names:
        inner = getattr(command, "commands", {})
        if name not in inner:
            known = list(dict.fromkeys([*inner, *(TOPICS if command is group else ())]))
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UsageError(f"no help on {name!r}: {hint}")
        command = inner[name]
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    return str(context.get_help()) + "\n"


def wrapped(text: str) -> str:
    """The paragraphs of a text as wide as the terminal; indented lines as they are."""
    width = max(20, min(WIDEST, shutil.get_terminal_size().columns))
    lines = [
        line if line.startswith(" ") else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.strip("\n").split("\n")
    ]
    return "\n".join(lines) + "\n"

"""`tx models`: names and help of its commands, as app.py has those of the others."""

from __future__ import annotations

from . import options as o
from . import parser

app = parser.group(
    """Lists, examines, converts and fetches models.

    \b
    Examples:
      tx models list
      tx models info en-zh
      tx models check ~/opus-mt-en-de
      tx models convert ~/opus-mt-en-de ~/en-de
      tx models pull Helsinki-NLP/opus-mt-en-de

    A model is a name or a folder: of tx itself, of Hugging Face (Marian, BART, mBART, M2M100, NLLB, T5), or one that
    Firefox or Bergamot use. The user's own models, which have names too, lie in $XDG_DATA_HOME/tx/models (by default in
    ~/.local/share/tx/models), each in a folder of its name.
    """
)
app.callback()(parser.help_if_alone)


@app.command("list", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def models_list(as_json: o.Json = False, debug: o.Debug = False) -> int:
    """Lists the models that have names: those of tx, then your own.

    \b
    Examples:
      tx models list
      tx models list --json

    With what they do, parameters, size on disk and licence. Damaged ones are listed too, with what is wrong.
    """
    from . import models as command

    return command.list_models(as_json=as_json)


@app.command("info", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def models_info(model: o.NamedModel, as_json: o.Json = False, debug: o.Debug = False) -> int:
    """Says what a model does and how it is built.

    \b
    Examples:
      tx models info en-zh
      tx models info ~/opus-mt-en-de --json

    In the words of "Attention Is All You Need"; with the parameters of each part, the memory they take, the licence and
    the checksums.
    """
    from . import models as command

    return command.info(model, as_json=as_json)


@app.command("check", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def models_check(model: o.NamedModel, debug: o.Debug = False) -> int:
    """Checks that a model is whole and works.

    \b
    Examples:
      tx models check en-zh

    Its files by their checksums, where it has some; that all its weights are numbers; a forward pass; and a sentence for
    each of some of its tasks, greedily, to be looked at. The exit code is 1, with one line, if anything is wrong.
    """
    from . import model_check

    return model_check.check(model)


@app.command("convert", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def models_convert(source: o.ForeignFolder, target: o.NewFolder, debug: o.Debug = False) -> int:
    """Writes a model in another format as one in that of tx.

    \b
    Examples:
      tx models convert ~/opus-mt-en-de ~/en-de

    Every command takes the other formats as they are, too: a converted model has a manifest and is opened faster.
    """
    from . import models as command

    return command.convert(source, target)


@app.command("pull", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def models_pull(repo: o.Repository, revision: o.Revision = None, debug: o.Debug = False) -> int:
    """Fetches a model from the Hugging Face hub.

    \b
    Examples:
      tx models pull Helsinki-NLP/opus-mt-en-de

    Nothing else in tx uses the network. Needs the extra "hub". Only the files that tx reads are fetched, and the model is there, under its ID as its name,
    once all of them have the sizes and checksums that the hub states. Interrupted, the same command goes on.
    HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and HF_TOKEN mean what they always do.
    """
    from . import models as command

    return command.pull(repo, revision=revision)

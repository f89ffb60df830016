"""The commands about tx itself: names and help of `tx config`, `tx help` and `tx completion`."""

from __future__ import annotations

import typer

from . import options as o
from . import parser

config = parser.group(
    """Shows what the configuration file and the environment set.

    \b
    Examples:
      tx config show
      tx config path

    tx help config says what may stand in the file.
    """
)
config.callback()(parser.help_if_alone)


@config.command("show", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def config_show(ctx: typer.Context, as_json: o.Json = False, debug: o.Debug = False) -> int:
    """Lists every setting, its value, and where that comes from.

    \b
    Examples:
      tx config show

    The default, the configuration file with its line, or a variable of the environment. Those for one command only have
    its name before them.
    """
    from . import show_config

    return show_config.show(ctx.find_root().command, as_json=as_json)


@config.command("path", cls=parser.Command, epilog=parser.EXIT_CODES_PLAIN)
def config_path(debug: o.Debug = False) -> int:
    """Prints where the configuration file is, or would be.

    \b
    Examples:
      ${EDITOR:-vi} "$(tx config path)"
    """
    from . import show_config

    return show_config.path()


def help_on(ctx: typer.Context, topic: o.Topic = None, debug: o.Debug = False) -> int:
    """Says more about a topic or a command.

    \b
    Examples:
      tx help
      tx help streams
      tx help evaluate qa
    """
    from . import help_topics

    root = ctx.find_root()
    return help_topics.show(list(topic or ()), root.command, root.info_name or "tx")


def completion(ctx: typer.Context, shell: o.Shell, debug: o.Debug = False) -> int:
    """Prints what makes a shell complete tx: bash, zsh or fish.

    \b
    Examples:
      eval "$(tx completion bash)"     # in ~/.bashrc
      eval "$(tx completion zsh)"      # in ~/.zshrc, after compinit
      tx completion fish > ~/.config/fish/completions/tx.fish
    """
    from . import completion as command

    return command.show(shell, ctx.find_root().info_name or "tx")

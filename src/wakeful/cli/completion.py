"""`completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from wakeful.cli.context import Command

_INSTALL: Final = {
    "bash": "echo 'eval \"$(wakeful completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(wakeful completion zsh)\"' >> ~/.zshrc",
    "fish": "wakeful completion fish > ~/.config/fish/completions/wakeful.fish",
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands.

    \b
      echo 'eval "$(wakeful completion bash)"' >> ~/.bashrc
      echo 'eval "$(wakeful completion zsh)"' >> ~/.zshrc
      wakeful completion fish > ~/.config/fish/completions/wakeful.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    script = made(ctx.find_root().command, {}, "wakeful", "_WAKEFUL_COMPLETE").source()
    click.echo(f"{script.strip()}\n# To install: {_INSTALL[shell]}")  # last: zsh looks for its mark on the first line

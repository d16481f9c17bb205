"""`init`: a settings file to begin with, in which everything is explained, and set is only what one seed needs."""

from __future__ import annotations

import json
import os
import textwrap
from datetime import timedelta
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from wakeful.cli.context import Command, asked
from wakeful.errors import Conflict, InvalidRequest
from wakeful.rules.create import LONGEST_WAIT
from wakeful.settings import FILE, FOREVER, HINTS, ROUTER, TABLES, Settings

_HEAD: Final = """\
# Settings of wakeful. A line that is a comment shows a default: take the # away where you want something else.
# A WAKEFUL_* variable overrides what stands here, and an option of the command line overrides both.
# `${NAME}` in a text is a variable's value, and NAME_file = "path" takes the text of NAME from a file: for secrets.
# docs/reference/settings.md explains more; `wakeful doctor` says whether it fits together.
"""
_TABLES: Final = """\
# Where wakes go, by name. Without a target an alarm waits in its owner's inbox.
# [targets.hook]
# kind = "webhook"            # webhook, router, table, notify or command: docs/targets/ has a page for each
# url = "https://example.com/wake"
# secret = "at least 24 characters, for the signature"

# Which chats each owner may write to; without this, everyone may to any.
# [chats]
# ada = ["123@g.us"]
"""
_LIKE: Final = """\
# With these wakeful behaves as the page of {name} says; docs/seeds/{name}.md has what differs all the same.
"""
# By the system that wakeful is to behave like: the settings that its page implies, defaults too.
SEEDS: Final[dict[str, dict[str, Any]]] = {
    "chronos": {
        "wake_url": "http://127.0.0.1:8088/internal/wake",
        "default_target": ROUTER,
        "chronos_envelope": True,
        "tick": timedelta(seconds=1),
        "lease": timedelta(minutes=2),
        "batch": 100,
        "max_failures": 5,
        "backoff_base": timedelta(seconds=30),
        "backoff_cap": timedelta(minutes=15),
        "exact_backoff": True,
        "retention": FOREVER,
    },
    "timed": {
        "tick": timedelta(seconds=60),
        "lease": timedelta(minutes=2),
        "tasks_target": "messages",
        "mcp_tasks": True,
    },
    "alarm": {
        "bare_day_time": "12:00",  # as a weekday has it there
        "max_failures": 0,
        "backoff_base": timedelta(seconds=5),
        "backoff_cap": LONGEST_WAIT,  # it has none
        "exact_backoff": True,
        "on_silence": "give_up",
        "retention": FOREVER,
    },
}
_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "m"),
    (timedelta(seconds=1), "s"),
)


@click.command("init", cls=Command)
@click.argument("file", default=FILE)
@click.option("--like", type=click.Choice(tuple(SEEDS)), help="Set what makes wakeful behave like this system.")
def init_command(file: str, like: str | None) -> None:
    """Write a settings file with every setting explained.

    FILE is wakeful.toml in this folder, which every command here then reads. One that is there is left alone.
    """
    try:
        # Only for its owner: sooner or later it holds a secret.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
            new.write(settings_text(like or ""))
    except FileExistsError:
        raise Conflict(
            f"{file} is there already", field="FILE", fix="Nothing was changed. Name another file."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}", field="FILE") from None
    path = os.path.abspath(file)
    asked().output.record({"written": path, "next": "wakeful doctor"}, {"written": path})


def settings_text(like: str = "") -> str:
    """Every setting with its explanation and its default, all of it comments but for what a seed needs."""
    usual, given = Settings(), SEEDS[like] if like else {}
    shown = [name for name in Settings.__struct_fields__ if name not in TABLES and name not in given]
    active = [f"{_explained(name)}\n{name} = {_toml(value)}\n" for name, value in given.items()]
    lines = [f"{_explained(name)}\n# {name} = {_toml(getattr(usual, name))}\n" for name in shown]
    return "\n".join([_HEAD, *([_LIKE.format(name=like), *active] if like else ()), *lines, _TABLES])


def _explained(name: str) -> str:
    [meta, *_] = HINTS[name].__metadata__
    return "\n".join(textwrap.wrap(str(meta.description), 110, initial_indent="# ", subsequent_indent="# "))


def _toml(value: Any) -> str:
    if value == FOREVER:
        return '"forever"'
    if isinstance(value, timedelta):
        for unit, sign in _UNITS:
            if value % unit == timedelta(0):
                return f'"{value // unit}{sign}"'
        return f'"{value.total_seconds():g}s"'
    return json.dumps(value)


# `completion`: the script with which a shell completes commands and options.

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

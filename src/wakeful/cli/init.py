"""`init`: a settings file to begin with, in which everything is explained and nothing is set."""

from __future__ import annotations

import json
import os
import textwrap
from datetime import timedelta
from typing import Any, Final

import click

from wakeful.cli.context import Command, asked
from wakeful.config import FILE, HINTS, TABLES, Settings
from wakeful.errors import Conflict, InvalidRequest

_HEAD: Final = """\
# Settings of wakeful. Every line here is a comment and shows a default: take the # away where you want something else.
# A WAKEFUL_* variable overrides what stands here, and an option of the command line overrides both.
# `${NAME}` in a text is a variable's value, and NAME_file = "path" takes the text of NAME from a file: for secrets.
# docs/reference/settings.md explains more; `wakeful doctor` says whether it fits together.
"""
_TABLES: Final = """\
# Where wakes go, by name. Without a target an alarm waits in its owner's inbox.
# [targets.hook]
# kind = "webhook"            # webhook, router, table or notify: docs/targets/ has a page for each
# url = "https://example.com/wake"
# secret = "at least 24 characters, for the signature"

# Which chats each owner may write to; without this, everyone may to any.
# [chats]
# ada = ["123@g.us"]
"""
_UNITS: Final = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "m"),
    (timedelta(seconds=1), "s"),
)


@click.command("init", cls=Command)
@click.argument("file", default=FILE)
def init_command(file: str) -> None:
    """Write a settings file with every setting explained.

    FILE is wakeful.toml in this folder, which every command here then reads. One that is there is left alone.
    """
    try:
        # Only for its owner: sooner or later it holds a secret.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
            new.write(settings_text())
    except FileExistsError:
        raise Conflict(
            f"{file} is there already", field="FILE", fix="Nothing was changed. Name another file."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be written: {error.strerror}", field="FILE") from None
    path = os.path.abspath(file)
    asked().output.record({"written": path, "next": "wakeful doctor"}, {"written": path})


def settings_text() -> str:
    """Every setting with its explanation and its default, all of it comments."""
    usual = Settings()
    shown = [name for name in Settings.__struct_fields__ if name not in TABLES]
    lines = [f"{_explained(name)}\n# {name} = {_toml(getattr(usual, name))}\n" for name in shown]
    return "\n".join([_HEAD, *lines, _TABLES])


def _explained(name: str) -> str:
    [meta, *_] = HINTS[name].__metadata__
    return "\n".join(textwrap.wrap(str(meta.description), 110, initial_indent="# ", subsequent_indent="# "))


def _toml(value: Any) -> str:
    if isinstance(value, timedelta):
        for unit, sign in _UNITS:
            if value % unit == timedelta(0):
                return f'"{value // unit}{sign}"'
        return f'"{value.total_seconds():g}s"'
    return json.dumps(value)

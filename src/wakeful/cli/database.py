"""Which file a command works on: one that is not there is never made by looking, and a new one is named."""

from __future__ import annotations

import os

import click

from wakeful.errors import StoreUnavailable
from wakeful.settings import LoadedSettings, Settings
from wakeful.settings.sources import HERE, user_db


def check_database(settings: Settings, *, creates: bool) -> None:
    """Say which file is used where that could surprise; StoreUnavailable where it is missing and not to be made."""
    if "://" in settings.db:
        return
    file = os.path.abspath(settings.db)
    if os.path.exists(file):
        _tell_of_this_folder(settings, file, is_writing=creates)
    elif _was_there(file) or _is_wrong_folder(file):
        return  # the store says what is wrong, and what to do
    elif creates:
        _note(f"making a new database: {file}")
    else:
        raise StoreUnavailable(
            f"there is no database at {file}",
            field="db",
            fix="Setting an alarm makes it, and so does `wakeful serve`; or name another one with --db or WAKEFUL_DB.",
            passing=False,
        )


def _was_there(file: str) -> bool:
    folder, name = os.path.split(file)
    return any(os.path.exists(os.path.join(folder, trace)) for trace in (f"{name}-wal", f".{name}.expected"))


def _is_wrong_folder(file: str) -> bool:
    return not os.path.isdir(os.path.dirname(file)) and file != user_db(os.environ)


def _tell_of_this_folder(settings: Settings, file: str, *, is_writing: bool) -> None:
    """A database in the current folder goes before the user's own: whoever did not name it should know."""
    is_named = isinstance(settings, LoadedSettings) and "db" in settings.origins
    if settings.db == HERE and not is_named and (is_writing or os.path.exists(user_db(os.environ))):
        _note(f"using the database in this folder: {file}")


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)

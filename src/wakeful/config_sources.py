"""Where settings stand: lines of a file, variables, the database nobody named; and which name was probably meant."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wakeful.errors import InvalidConfig

PREFIX: Final = "WAKEFUL_"
HERE: Final = "wakeful.db"  # a database in the current folder, where one is or was
# What is left of a database in this folder that is gone: then it is missed, and no other is used in its place.
_TRACES: Final = (HERE, f"{HERE}-wal", f".{HERE}.expected")
# Variables that are not settings.
VARIABLES: Final = ("WAKEFUL_CONFIG", "WAKEFUL_TOKEN", "WAKEFUL_URL", "WAKEFUL_PROFILE")
# Kubernetes tells every pod about a service called wakeful; the tests have variables of their own.
_FOREIGN: Final = re.compile(r"WAKEFUL_(SERVICE_.*|PORT_\d+_.*|TEST_.*)")
_SERVICE_LINK: Final = re.compile(r"(tcp|udp)://\S+:\d+")
_TABLE: Final = re.compile(r"\[\[?([^\]]+)\]")
_KEY: Final = re.compile(r"([\w\-.\"' ]+?)\s*=")


def default_db(environ: Mapping[str, str]) -> str:
    """The database of whoever names none: `wakeful.db` in this folder where there is one, else one file per user."""
    if any(Path(trace).exists() for trace in _TRACES):
        return HERE
    return user_db(environ)


def user_db(environ: Mapping[str, str]) -> str:
    """The one file per user, in the folder that is meant for a program's data."""
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):  # to be ignored, says the standard
        base = os.path.expanduser("~/.local/share")
    if not os.path.isabs(base):
        raise InvalidConfig(
            "there is no home folder for it", field="db", fix="Name a file with --db or the variable WAKEFUL_DB."
        )
    return os.path.join(base, "wakeful", HERE)


def make_folder(db: str) -> None:
    """Make the folder of the one file per user. Any other folder is made by whoever names it."""
    folder = os.path.dirname(os.path.abspath(db))
    if os.path.isdir(folder) or os.path.abspath(db) != user_db(os.environ):
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(
            f"{folder} cannot be made: {error.strerror}",
            field="db",
            fix="Name a file with --db or the variable WAKEFUL_DB.",
        ) from None


def check_variables(environ: Mapping[str, str], settings: Iterable[str]) -> None:
    """InvalidConfig where a WAKEFUL_* variable sets nothing: somebody believes that it does."""
    known = [*VARIABLES, *(f"{PREFIX}{name.upper()}" for name in settings)]
    for name in environ:
        if name.startswith(PREFIX) and name not in known and not _FOREIGN.fullmatch(name):
            fix = nearest(name, known) or "docs/reference/settings.md lists them."
            raise InvalidConfig("there is no such setting", field=name, fix=f"{fix} Or unset it.")


def is_service_link(name: str, text: str) -> bool:
    """Whether Kubernetes has written this into WAKEFUL_PORT, for a service called wakeful."""
    return name == "port" and _SERVICE_LINK.fullmatch(text) is not None


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing where none is like it."""
    import difflib

    found = difflib.get_close_matches(name.lower(), {one.lower(): one for one in known}, n=1, cutoff=0.6)
    return next((f"Did you mean {one}?" for one in known if found and one.lower() == found[0]), "")


@dataclass(frozen=True)
class SettingsFile:
    """A settings file as it was written, and where in it each name stands. It is empty where nobody named one."""

    file: Path
    text: str
    raw: dict[str, Any]

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None, usual: str) -> SettingsFile:
        file = Path(path or usual)
        if not file.exists():
            if path is not None:
                raise InvalidConfig(f"{file} does not exist", field="config", fix="Name an existing file.")
            return cls(file, "", {})
        try:
            text = file.read_text()
            return cls(file, text, tomllib.loads(text))
        except (OSError, ValueError, RecursionError) as error:  # not only TOML's own: a number of thousands of digits
            raise InvalidConfig(f"{file}: {error}", field="config") from None

    def where(self, name: str) -> str:
        return f"{self.file}, line {line_of(self.text, name)}"


def password_in(db: str) -> tuple[str, ...]:
    """The password in a database's address, as it is written there and as it is meant; none where there is none."""
    from urllib.parse import unquote, urlsplit

    try:
        written = urlsplit(db).password if "://" in db else None
    except ValueError:
        return ()
    return (written, unquote(written)) if written else ()


def line_of(text: str, name: str) -> int:
    """The line of a TOML file that sets a dotted name, or the one nearest above it; 1 where nothing is found."""
    wanted, table = name.split("."), list[str]()
    best, depth = 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if header := _TABLE.match(stripped):
            path = table = _parts(header[1])
        elif key := _KEY.match(stripped):
            path = table + _parts(key[1])
        else:
            continue
        if [*path[:-1], path[-1].removesuffix("_file")] == wanted:  # it sets the same, by the text of a file
            path = wanted
        if path == wanted[: len(path)] and len(path) > depth:
            best, depth = number, len(path)
        elif wanted == path[: len(wanted)] and depth < len(wanted):  # a table that is opened only for what is in it
            best, depth = number, len(wanted)
    return best


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]

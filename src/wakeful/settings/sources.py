"""Where settings stand: files, variables, `${NAME}` and `NAME_file`, the default database, and similar names."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wakeful.errors import InvalidConfig, nearest

PREFIX: Final = "WAKEFUL_"
HERE: Final = "wakeful.db"  # a database in the current folder, where one is or was
# What is left of a database in this folder that is gone: then it is missed, and no other is used in its place.
_TRACES: Final = (HERE, f"{HERE}-wal", f".{HERE}.expected")
# Variables that are not settings.
VARIABLES: Final = (
    *("WAKEFUL_CONFIG", "WAKEFUL_TOKEN", "WAKEFUL_URL", "WAKEFUL_PROFILE"),
    *("WAKEFUL_MCP_TARGET", "WAKEFUL_MCP_CONVERSATION", "WAKEFUL_MCP_TIMEZONE"),
)
# What a program that a wake runs finds set; `wakeful` may be that program.
WAKE_VARIABLES: Final = (
    *("WAKEFUL_FIRE_ID", "WAKEFUL_ALARM_ID", "WAKEFUL_OWNER", "WAKEFUL_TARGET", "WAKEFUL_CONVERSATION_ID"),
    *("WAKEFUL_LABEL", "WAKEFUL_MESSAGE", "WAKEFUL_PAYLOAD", "WAKEFUL_AUTHOR", "WAKEFUL_SCHEDULED_FOR"),
    *("WAKEFUL_ATTEMPT", "WAKEFUL_NUMBER", "WAKEFUL_LATE_MS", "WAKEFUL_MISSED", "WAKEFUL_LAST_ERROR"),
    *("WAKEFUL_SIGNAL", "WAKEFUL_SIGNAL_PAYLOAD", "WAKEFUL_REPORT_URL", "WAKEFUL_REPORT_TOKEN"),
)
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
        if name.startswith(PREFIX) and name not in (*known, *WAKE_VARIABLES) and not _FOREIGN.fullmatch(name):
            fix = nearest(name, known) or "docs/reference/settings.md lists them."
            raise InvalidConfig("there is no such setting", field=name, fix=f"{fix} Or unset it.")


def is_service_link(name: str, text: str) -> bool:
    """Whether Kubernetes has written this into WAKEFUL_PORT, for a service called wakeful."""
    return name == "port" and _SERVICE_LINK.fullmatch(text) is not None


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


# Settings whose text stands elsewhere: `${NAME}` is a variable's value, `NAME_file` names the file with the text.

FILE_SUFFIX: Final = "_file"
HIDDEN: Final = "[hidden]"
_LONGEST: Final = 65_536  # bytes of a file: a secret is short, and a device never ends
_SHORTEST: Final = 6  # of a value that is blotted out wherever it stands; less would blot out half the language
_QUOTED: Final = 60  # characters of a value that some errors quote
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


def refers(text: str) -> bool:
    """Whether something in this text comes from a variable."""
    return any(found["name"] for found in _REFERENCE.finditer(text))


class Elsewhere:
    """What a settings file or a variable points to. None of it is shown: `found` is all of it, `texts` whole files."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.found: list[str] = []
        self.texts: dict[str, str] = {}  # by the setting

    def resolved(self, value: Any, name: str, where: Callable[[str], str]) -> Any:
        """The value with every `${NAME}` in its texts filled in. `name` is dotted; `where` says where a name stands."""
        if isinstance(value, str):
            return self._filled(value, name, where)
        if isinstance(value, list):
            return [self.resolved(one, name, where) for one in value]
        if isinstance(value, dict):
            return {key: self.resolved(one, f"{name}.{key}", where) for key, one in value.items()}
        return value

    def without_files(
        self, table: Mapping[str, Any], prefix: str, where: Callable[[str], str], *, takes: Callable[[str], bool]
    ) -> dict[str, Any]:
        """The table with the text of a file for each `NAME_file`, where a setting NAME takes one."""
        values: dict[str, Any] = {}
        for name, value in table.items():
            setting = name.removesuffix(FILE_SUFFIX)
            if setting == name or not takes(setting):
                values[name] = value
                continue
            field = f"{prefix}{name}"
            if setting in table:
                raise InvalidConfig(
                    f"{where(field)}: {setting} is given too", field=field, fix=f"Give {setting} or {name}, not both."
                )
            values[setting] = self.text_of(value, f"{prefix}{setting}", field=field, where=where(field))
        return values

    def text_of(self, file: Any, setting: str, *, field: str, where: str) -> str:
        """The text of a file, without the line break at its end."""
        if not isinstance(file, str) or not file or "\0" in file:
            raise InvalidConfig(f"{where}: it is not the name of a file", field=field, fix="Give the file's path.")
        path = os.path.join(self._environ.get("CREDENTIALS_DIRECTORY", ""), file)
        try:
            with open(path, "rb") as opened:
                content = opened.read(_LONGEST + 1)
            text = content.decode().removesuffix("\n").removesuffix("\r")
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror}"
            raise InvalidConfig(f"{where}: {reason}", field=field, fix=_file_fix(file, path)) from None
        except UnicodeDecodeError:
            raise InvalidConfig(f"{where}: {path} is not text in UTF-8", field=field) from None
        if not text or len(content) > _LONGEST:
            what = "is empty" if not text else f"is longer than {_LONGEST:,} bytes"
            raise InvalidConfig(f"{where}: {path} {what}", field=field, fix="Name the file that holds the text.")
        self.found.append(text)
        self.texts[setting] = text
        return text

    def _filled(self, text: str, name: str, where: Callable[[str], str]) -> str:
        def value(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            variable = found["name"]
            if variable is None:
                raise InvalidConfig(
                    f"{where(name)}: `${{` is not followed by a variable's name and `}}`",
                    field=name,
                    fix="Write ${NAME}; the characters ${ themselves are written $${.",
                )
            if not (value := self._environ.get(variable, "")):
                # An empty secret would send wakes unsigned, and nobody would notice.
                state = "is empty" if variable in self._environ else "is not set"
                raise InvalidConfig(
                    f"{where(name)}: the variable {variable} {state}",
                    field=name,
                    fix=f"Set {variable} before the start.",
                )
            if not value.isascii():
                _check_text(value, variable, field=name, where=where(name))
            self.found.append(value)
            return value

        return _REFERENCE.sub(value, text)


def without_values(error: InvalidConfig, values: list[str]) -> InvalidConfig:
    """The error without what came from elsewhere, quoted or not."""
    message = error.message
    for value in sorted({*values, *(value[:_QUOTED] for value in values)}, key=len, reverse=True):
        message = message.replace(repr(value), repr(HIDDEN))
        if len(value) >= _SHORTEST:
            for form in (value, repr(value)[1:-1], repr(f"\"'{value}")[4:-1]):  # quotes in a longer text may be escaped
                message = message.replace(form, HIDDEN)
    return error if message == error.message else InvalidConfig(message, field=error.field, fix=error.fix)


def _check_text(value: str, variable: str, *, field: str, where: str) -> None:
    try:
        value.encode()  # a variable may hold any bytes: those that are not text come as lone surrogates
    except UnicodeEncodeError:
        raise InvalidConfig(f"{where}: the variable {variable} is not text in UTF-8", field=field) from None


def _file_fix(file: str, path: str) -> str:
    if file == path:
        return "Name a file that this process may read."
    return "A name that is not a full path is looked for in $CREDENTIALS_DIRECTORY: load it there with LoadCredential=."

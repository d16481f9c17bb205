"""Settings whose text stands elsewhere: `${NAME}` is a variable's value, `NAME_file` names the file with the text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakeful.errors import InvalidConfig

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

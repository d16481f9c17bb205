"""Servers by name: where each is and the token for it, in a file that only its user can read."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wakeful.errors import InvalidConfig

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def profiles_file(environ: Mapping[str, str] | None = None) -> Path:
    environ = os.environ if environ is None else environ
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "wakeful" / "profiles.toml"


def profile(name: str) -> tuple[str, str]:
    """The address and the token of a profile."""
    known = _read()
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        fix = f"Known are: {names}. Make it with: wakeful login {name} --url https://…"
        raise InvalidConfig(f"there is no profile {name!r}", field="profile", fix=fix)
    return known[name]["url"], known[name].get("token", "")


def keep_profile(name: str, url: str, token: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InvalidConfig(
            f"{name!r} is not a name for a profile", field="NAME", fix="Use letters, digits, - and _, 64 at most."
        )
    return _write({**_read(), name: {"url": url, "token": token}})


def forget_profile(name: str) -> Path:
    profile(name)
    return _write({known: kept for known, kept in _read().items() if known != name})


def _read() -> dict[str, dict[str, str]]:
    file = profiles_file()
    try:
        found: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidConfig(
            f"{file} cannot be read ({error})", field="profile", fix="Mend or delete it, and log in again."
        ) from None
    whole = {name: kept for name, kept in found.items() if isinstance(kept, dict) and isinstance(kept.get("url"), str)}
    return {name: {key: str(value) for key, value in kept.items()} for name, kept in whole.items()}


def _write(profiles: Mapping[str, Mapping[str, str]]) -> Path:
    """In one step, so that a token is never in a file that others can read, nor lost half-way."""
    file = profiles_file()
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in kept.items() if value)
        for name, kept in sorted(profiles.items())
    ]
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            os.fchmod(descriptor, 0o600)
            opened.write("\n".join(lines))
        new.replace(file)
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be written ({error})", field="profile") from None
    return file


def _quoted(text: str) -> str:
    return json.dumps(text)  # what JSON quotes, TOML reads: addresses and tokens are ASCII

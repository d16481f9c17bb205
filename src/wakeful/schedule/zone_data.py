"""Which edition of the IANA time zone data is in use, and where it came from."""

from __future__ import annotations

import re
import zoneinfo
from importlib import import_module
from pathlib import Path
from typing import Final

from msgspec import Struct

_VERSION: Final = re.compile(r"(?:# version )?(\d{4}[a-z]{1,2})\b")
_TOLD_IN: Final = ("+VERSION", "tzdata.zi", "version")


class ZoneData(Struct, frozen=True):
    version: str  # such as 2026a; empty where nothing says
    source: str


def zone_data() -> ZoneData:
    """What `ZoneInfo` reads: the system's files where there are some, else the package."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "Europe" / "London").is_file():
            return ZoneData(_told(folder), str(folder))
    package = import_module("tzdata")
    return ZoneData(str(package.IANA_VERSION), "the package tzdata")


def _told(folder: Path) -> str:
    for name in _TOLD_IN:
        file = folder / name
        if file.is_file():
            with file.open(errors="replace") as lines:
                if found := _VERSION.match(lines.readline()):
                    return found[1]
    return ""

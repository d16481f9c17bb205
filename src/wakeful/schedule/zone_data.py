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
_PACKAGE_SAYS: Final = re.compile(r'IANA_VERSION = "(\d{4}[a-z]{1,2})"')


class ZoneData(Struct, frozen=True):
    version: str  # such as 2026a; empty where nothing says
    source: str


def zone_data() -> ZoneData:
    """What `ZoneInfo` reads: the system's files where there are some, else the package. Looked up at every call."""
    folder = zone_folder()
    if folder is not None:
        return ZoneData(_told(folder), str(folder))
    package = import_module("tzdata")
    # From its file: the package may have been upgraded since it was imported.
    found = _PACKAGE_SAYS.search(Path(str(package.__file__)).read_text())
    return ZoneData(found[1] if found else str(package.IANA_VERSION), "the package tzdata")


def zone_folder() -> Path | None:
    """Where the system has its compiled zones; None where it has none."""
    folders = map(Path, zoneinfo.TZPATH)
    return next((folder for folder in folders if (folder / "Europe" / "London").is_file()), None)


def _told(folder: Path) -> str:
    for name in _TOLD_IN:
        file = folder / name
        if file.is_file():
            with file.open(errors="replace") as lines:
                if found := _VERSION.match(lines.readline()):
                    return found[1]
    return ""

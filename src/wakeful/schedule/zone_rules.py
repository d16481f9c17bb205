"""The compiled rules of every time zone as one value that can be kept, and which edition of the IANA data they are."""

from __future__ import annotations

import os
import re
import struct
import zlib
import zoneinfo
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from wakeful.schedule.zones import zone_data_of_simulation

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


_MAGIC: Final = b"TZif"
_HEADER: Final = struct.Struct(">4sc15x6l")
_NOT_ZONES: Final = ("posix", "right")  # the same zones once more, and those that count leap seconds
_BACK: Final = timedelta(days=400)  # changes longer ago than this move nothing that is still to come


class ZoneRules(Struct, frozen=True):
    """`version`: which edition; of two the greater text is the newer one. `data`: the compiled file of each zone."""

    version: str
    data: Mapping[str, bytes]

    def packed(self) -> bytes:
        """As bytes. Names that mean the same zone share one copy."""
        files = sorted(set(self.data.values()))
        places = {file: place for place, file in enumerate(files)}
        names = {name: places[file] for name, file in sorted(self.data.items())}
        return zlib.compress(msgspec.msgpack.encode((names, files)), level=6)

    @classmethod
    def unpacked(cls, version: str, packed: bytes) -> ZoneRules:
        names, files = msgspec.msgpack.decode(zlib.decompress(packed), type=tuple[dict[str, int], list[bytes]])
        return cls(version, {name: files[place] for name, place in names.items()})


def edition() -> str:
    """The edition that `ZoneInfo` reads now, as a text that can be compared."""
    simulated = zone_data_of_simulation()
    return edition_of(zone_data()) if simulated is None else simulated[0]


def edition_of(data: ZoneData) -> str:
    """Where nothing says which it is, it is called by the day its files are from: older than any of that year."""
    if data.version:
        return data.version
    changed = os.stat(Path(data.source) / "Europe" / "London").st_mtime
    return f"{datetime.fromtimestamp(changed, UTC):%Y-%m-%d}"


@lru_cache(maxsize=2)
def rules_here(version: str) -> ZoneRules:
    """What this machine has, under the name of its edition. Read anew when the edition is another one."""
    if (simulated := zone_data_of_simulation()) is not None:
        return ZoneRules(version, simulated[1])
    data = dict(_package())
    folder = zone_folder()
    if folder is not None:
        data |= dict(_folder(folder))
    return ZoneRules(version, data)


def _package() -> Iterator[tuple[str, bytes]]:
    root = Path(str(import_module("tzdata").__file__)).parent
    for name in (root / "zones").read_text().split():
        yield name, (root / "zoneinfo" / name).read_bytes()


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_ZONES]
        for name in files:
            file = Path(place) / name
            with file.open("rb") as opened:
                if opened.read(len(_MAGIC)) == _MAGIC:
                    yield file.relative_to(folder).as_posix(), _MAGIC + opened.read()


def differing(former: ZoneRules, current: ZoneRules, now: datetime) -> frozenset[str]:
    """The zones whose clocks go otherwise from about now on. How a file is written does not matter."""
    changed = (name for name, data in former.data.items() if current.data.get(name, data) != data)
    since = int((now - _BACK).timestamp())
    return frozenset(name for name in changed if not _same(former.data[name], current.data[name], since))


def _same(one: bytes, other: bytes, since: int) -> bool:
    ours, theirs = _listed_changes(one), _listed_changes(other)
    if ours[1] != theirs[1]:  # what holds after the last change that is listed
        return False
    zones = [ZoneInfo.from_file(BytesIO(data)) for data in (one, other)]
    moments = {since} | {moment for moment in (*ours[0], *theirs[0]) if moment > since}
    beside = {near for moment in moments for near in (moment - 1, moment)}
    return all(len({datetime.fromtimestamp(at, tz).utcoffset() for tz in zones}) == 1 for at in beside)


def _listed_changes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The moments at which a compiled file says that clocks change, in unix seconds, and the rule for after them."""
    start = _HEADER.size + _length(_counts(data, 0), 4)  # a first block for readers of long ago
    counts = _counts(data, start)
    first = start + _HEADER.size
    times = struct.unpack_from(f">{counts[3]}q", data, first)
    return times, data[first + _length(counts, 8) :].strip(b"\n")


def _counts(data: bytes, at: int) -> tuple[int, ...]:
    _, _, *counts = _HEADER.unpack_from(data, at)
    return tuple(counts)


def _length(counts: tuple[int, ...], width: int) -> int:
    """Of a block without its header; a moment has `width` bytes."""
    universal, standard, leaps, times, types, letters = counts
    return times * width + times + types * 6 + letters + leaps * (width + 4) + standard + universal

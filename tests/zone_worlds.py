"""Machines with zone data of their own: compiled files in a folder, under the name of an edition."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wakeful.schedule import zone_rules, zones

BERLIN = "Europe/Berlin"
_ZONES = (BERLIN, "Europe/London", "America/New_York", "Asia/Kathmandu")
TODAY, TOMORROW = "2030a", "2030b"  # editions: as it is, and after a change of the law


def compiled(rule: str, offset: int = 3600) -> bytes:
    """A zone that has always had one rule, such as `CET-1` or `CET-1CEST,M3.5.0,M10.5.0/3`."""
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">lbb", offset, 0, 0) + b"STD\0"
    return header + block + header + block + f"\n{rule}\n".encode()


SUMMER_TIME = compiled("CET-1CEST,M3.5.0,M10.5.0/3")
NO_SUMMER_TIME = compiled("CET-1")
ALWAYS_SUMMER_TIME = compiled("CEST-2", 7200)


def machine(folder: Path, version: str, **zones: bytes) -> Path:
    """A folder as `PYTHONTZPATH` names one. Berlin is given as `Berlin=…`; the others are as everywhere."""
    found = zone_rules.rules_here(zone_rules.edition()).data
    own = {BERLIN: zones.get("Berlin", SUMMER_TIME)}
    for name in _ZONES:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(own.get(name, found[name]))
    (folder / "tzdata.zi").write_text(f"# version {version}\n")
    return folder


@contextmanager
def process_on(folder: Path | None) -> Iterator[None]:
    """As a process that has just started there would read its zones."""
    before, path = zones._rules, zoneinfo.TZPATH
    zones._rules = zones._Rules()
    zones._rules.in_force = zones._rules.number({})
    zone_rules.rules_here.cache_clear()
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath(to=None if folder is None else [str(folder)])
    try:
        yield
    finally:
        zones._rules = before
        zone_rules.rules_here.cache_clear()
        zoneinfo.reset_tzpath(to=path)
        zoneinfo.ZoneInfo.clear_cache()


@pytest.fixture
def own_rules() -> Iterator[None]:
    """Whatever a test puts in force is gone after it."""
    before = zones._rules
    zones._rules = zones._Rules()
    yield
    zones._rules = before

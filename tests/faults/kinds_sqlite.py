"""Faults of a SQLite file and of the disk it lies on."""

from __future__ import annotations

import resource
import signal
import time
from typing import Final

from .ground import DISPATCHERS, LEASE, Ground
from .kinds import EVERYWHERE, Hit, kind
from .places import SqlitePlace
from .world import disk as disks
from .world import sqlite

STORE: Final = ("store",)


def place(ground: Ground) -> SqlitePlace:
    assert isinstance(ground.place, SqlitePlace)
    return ground.place


def no_disk() -> str:
    return "" if disks.available() else "the right to mount"


@kind("disk full", "sqlite", missing=no_disk)
def disk_full(ground: Ground) -> Hit:
    disk = place(ground).disk
    assert disk is not None
    disk.fill()
    try:
        ground.pause(4)
    finally:
        disk.free()
    return Hit(hits=STORE)


@kind("files may not grow (EFBIG)", "sqlite")
def file_too_big(ground: Ground) -> Hit:
    with ground.limited(resource.RLIMIT_FSIZE, 4096, *DISPATCHERS):
        ground.pause(4)
    return Hit(hits=STORE)


@kind("locked by another program", "sqlite", profiles=EVERYWHERE)
def foreign_lock(ground: Ground) -> Hit:
    with sqlite.foreign_lock(place(ground).file, LEASE * 2):
        ground.pause(LEASE * 1.5)
    return Hit(hits=STORE)


@kind("a long reader", "sqlite")
def long_reader(ground: Ground) -> Hit:
    """Hits nothing: nobody waits for a reader, and so nothing is excused."""
    with sqlite.long_reader(place(ground).file, LEASE * 2):
        ground.pause(LEASE * 1.5)
    return Hit(hits=())


@kind("a corrupt page", "sqlite")
def corrupt_page(ground: Ground) -> Hit:
    mend = sqlite.corrupt_page(place(ground).file)
    try:
        ground.pause(3)
    finally:
        mend()
    return Hit(hits=STORE)


@kind("the file moved away", "sqlite", last=True)
def file_moved(ground: Ground) -> Hit:
    """And put back: nothing that was answered yes meanwhile may be gone, also not by a serve that began without it."""
    put_back = sqlite.move_away(place(ground).file)
    try:
        ground.pause(2)
        ground.keeper.kill("serve")
        ground.pause(5)
    finally:
        put_back()
    ground.everybody_up()
    return Hit(hits=("store", "serve"))


@kind("restored from a backup", "sqlite", last=True)
def restored(ground: Ground) -> Hit:
    spare = place(ground).spare / "backup.db"
    since = time.time()
    sqlite.backup(place(ground).file, spare)
    ground.pause(4)
    for name in DISPATCHERS:
        ground.keeper.stop(name, signal.SIGKILL)
    sqlite.restore(place(ground).file, spare)
    for name in DISPATCHERS:
        ground.keeper.start(name)
    ground.everybody_up()
    return Hit(hits=STORE, forgets_since=since)

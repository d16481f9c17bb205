"""What lies behind a clock, for a test that has to look there."""

from __future__ import annotations

from wakeful.client import Wakeful
from wakeful.dispatcher import ServedTarget
from wakeful.store import Store


def store_of(clock: Wakeful) -> Store:
    """Where it keeps its alarms: rows as they are, whoever they belong to, and a way to write what no verb would."""
    return clock._store


def targets_of(clock: Wakeful) -> dict[str, ServedTarget]:
    """The targets it serves by name; one that is put in is served from then on, as if it were configured."""
    return clock._served

"""wakeful: a durable alarm clock for AI agents and services.

    async with wakeful.open("wakeful.db") as alarms:
        await alarms.set("tomorrow at 9am", "Check the grant portal")

Nothing happens at import, and names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wakeful._version import __version__

if TYPE_CHECKING:
    from wakeful import agents
    from wakeful.errors import (
        Conflict,
        Forbidden,
        InvalidConfig,
        InvalidRequest,
        InvalidSchedule,
        NotFound,
        StaleVersion,
        StoreBusy,
        StoreUnavailable,
        TooMany,
        Unauthorized,
        UnknownTarget,
        WakefulError,
    )
    from wakeful.model.alarm import Alarm, AlarmStatus, Fire, FireStatus, Kind, Policy
    from wakeful.model.keywords import OpenKeywords, PolicyKeywords, UpdateKeywords
    from wakeful.model.owner_settings import OwnerSettingsView, SettingsRequest
    from wakeful.model.requests import CreateRequest, EditRequest, OnConflict, PolicyRequest, ReportRequest, When
    from wakeful.process.application import open, open_sync
    from wakeful.python.client import LocalWakeful
    from wakeful.python.program import Wakeful
    from wakeful.python.sync import SyncWakeful
    from wakeful.remote import RemoteWakeful
    from wakeful.rules.wake import Wake
    from wakeful.schedule import Understood, describe, parse
    from wakeful.service import (
        Alarms,
        Cancelled,
        Changed,
        ChangedFire,
        Created,
        Details,
        HistoryEntry,
        Moved,
        TakenWake,
        Why,
    )
    from wakeful.service.history import HistoryStatus, Pending
    from wakeful.service.live import LiveEvent
    from wakeful.store import Matches, Stats
    from wakeful.targets.handler import HandlerFunction, Snooze

_HOMES = {
    "Alarm": "model.alarm",
    "Fire": "model.alarm",
    "Policy": "model.alarm",
    "Wake": "rules.wake",
    "When": "model.requests",
    "AlarmStatus": "model.alarm",
    "FireStatus": "model.alarm",
    "Kind": "model.alarm",
    "CreateRequest": "model.requests",
    "OwnerSettingsView": "model.owner_settings",
    "SettingsRequest": "model.owner_settings",
    "EditRequest": "model.requests",
    "OnConflict": "model.requests",
    "PolicyRequest": "model.requests",
    "ReportRequest": "model.requests",
    "LocalWakeful": "python.client",
    "Wakeful": "python.program",
    "open": "process.application",
    "open_sync": "process.application",
    "Conflict": "errors",
    "Forbidden": "errors",
    "InvalidConfig": "errors",
    "InvalidRequest": "errors",
    "InvalidSchedule": "errors",
    "NotFound": "errors",
    "StaleVersion": "errors",
    "StoreBusy": "errors",
    "StoreUnavailable": "errors",
    "TooMany": "errors",
    "Unauthorized": "errors",
    "UnknownTarget": "errors",
    "WakefulError": "errors",
    "OpenKeywords": "model.keywords",
    "PolicyKeywords": "model.keywords",
    "UpdateKeywords": "model.keywords",
    "RemoteWakeful": "remote",
    "Understood": "schedule",
    "describe": "schedule",
    "parse": "schedule",
    "Alarms": "service",
    "Cancelled": "service",
    "Changed": "service",
    "ChangedFire": "service",
    "Created": "service",
    "Details": "service",
    "HistoryEntry": "service",
    "Moved": "service",
    "TakenWake": "service",
    "Why": "service",
    "HistoryStatus": "service.history",
    "Pending": "service.history",
    "LiveEvent": "service.live",
    "Matches": "store",
    "Stats": "store",
    "SyncWakeful": "python.sync",
    "HandlerFunction": "targets.handler",
    "Snooze": "targets.handler",
}
__all__ = [
    "Alarm",
    "AlarmStatus",
    "Alarms",
    "Cancelled",
    "Changed",
    "ChangedFire",
    "Conflict",
    "CreateRequest",
    "Created",
    "Details",
    "EditRequest",
    "Fire",
    "FireStatus",
    "Forbidden",
    "HandlerFunction",
    "HistoryEntry",
    "HistoryStatus",
    "InvalidConfig",
    "InvalidRequest",
    "InvalidSchedule",
    "Kind",
    "LiveEvent",
    "LocalWakeful",
    "Matches",
    "Moved",
    "NotFound",
    "OnConflict",
    "OpenKeywords",
    "OwnerSettingsView",
    "Pending",
    "Policy",
    "PolicyKeywords",
    "PolicyRequest",
    "RemoteWakeful",
    "ReportRequest",
    "SettingsRequest",
    "Snooze",
    "StaleVersion",
    "Stats",
    "StoreBusy",
    "StoreUnavailable",
    "SyncWakeful",
    "TakenWake",
    "TooMany",
    "Unauthorized",
    "Understood",
    "UnknownTarget",
    "UpdateKeywords",
    "Wake",
    "Wakeful",
    "WakefulError",
    "When",
    "Why",
    "__version__",
    "agents",
    "describe",
    "open",
    "open_sync",
    "parse",
]


def __getattr__(name: str) -> Any:
    if name == "agents":
        return import_module("wakeful.agents")
    if name not in _HOMES:
        raise AttributeError(f"module 'wakeful' has no attribute {name!r}")
    value = getattr(import_module(f"wakeful.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

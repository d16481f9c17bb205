"""The least, and for ports the most, that a setting may be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from wakeful.errors import InvalidConfig

if TYPE_CHECKING:
    from wakeful.config import Settings


def check_numbers(settings: Settings) -> None:
    least = {"batch": 1, "concurrency": 1, "total_concurrency": 1, "max_failures": 0, "pool_size": 2, "port": 0}
    least |= {"did_owners_per_address": 1, "did_owners_per_hour": 1}
    least |= {
        "quota_active": 1,
        "quota_bytes": 1,
        "unread_per_owner": 1,
        "reads_per_owner": 1,
        "creates_per_minute": 1,
        "fires_per_minute": 1,
        "chain_depth": 0,
        "metrics_port": 0,
    }
    least |= {
        "requests_per_minute": 1,
        "live_per_owner": 1,
        "live_total": 1,
        "connections": 1,
        "connections_per_address": 1,
        "auto_pause_after": 0,
        "processes": 1,
    }
    for name, minimum in least.items():
        if getattr(settings, name) < minimum:
            raise InvalidConfig(f"{getattr(settings, name)} is less than {minimum}", field=name)
    if settings.cpu_per_minute < (shortest := timedelta(milliseconds=100)):
        raise InvalidConfig(
            f"{settings.cpu_per_minute} is less than {shortest}", field="cpu_per_minute", fix="Give 20s."
        )
    for name in ("chain_token_lasts", "chain_series_lasts"):
        if (length := getattr(settings, name)) < timedelta(seconds=1):
            raise InvalidConfig(f"{length} is less than a second", field=name, fix="Give 1s or more.")
    for name in ("port", "metrics_port"):
        if (port := getattr(settings, name)) > 65535:
            raise InvalidConfig(f"{port} is not a port", field=name, fix="Give 0 to 65535.")

"""The default policy of an alarm, from the operator's settings."""

from __future__ import annotations

from wakeful.alarm.model import DEFAULT_POLICY, Policy
from wakeful.config import Settings


def default_policy(settings: Settings) -> Policy:
    found = Policy(
        backoff_base=settings.backoff_base.total_seconds(),
        backoff_cap=settings.backoff_cap.total_seconds(),
        catch_up="skip" if settings.catch_up == "skip" else "one",
        grace=settings.grace.total_seconds(),
        overlap="allow" if settings.overlap == "allow" else "skip",
        auto_pause_after=settings.auto_pause_after or None,
    )
    return DEFAULT_POLICY if found == DEFAULT_POLICY else found  # the very one is stored as nothing at all

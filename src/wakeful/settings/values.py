"""What the rules and the verbs take from the settings: limits, defaults and users, as values of their own."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import fields

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import NEW_POLICY, Policy
from wakeful.model.limits import EVERYONE
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import Defaults
from wakeful.rules.task import Planner
from wakeful.rules.users import ANYONE, Users
from wakeful.settings import Settings
from wakeful.settings.kinds import target_kind

_OF_HOLIDAYS: Final = frozenset({"calendar", "working_days"})


def defaults_of(settings: Settings) -> Defaults:
    return Defaults(
        timezone=settings.timezone,
        date_order=settings.date_order,
        bare_day=settings.bare_day,
        target=settings.usual_target,
        max_failures=settings.max_failures,
        policy=default_policy(settings),
    )


def default_policy(settings: Settings) -> Policy:
    """Every field of a policy that is a setting too; 0 stands for none where there may be none.

    Not the calendar: which holidays are meant is a setting, but only an alarm says that it keeps them.
    """
    of_policy = _policy_fields()
    said: dict[str, Any] = {
        name: getattr(settings, name) for name in of_policy if hasattr(settings, name) and name not in _OF_HOLIDAYS
    }
    plain: dict[str, Any] = {
        name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in said.items()
    }
    found = Policy(**{name: value for name, value in plain.items() if value or not of_policy[name]})
    return NEW_POLICY if found == NEW_POLICY else found  # the very one is found at once where it is checked


@lru_cache(maxsize=1)
def _policy_fields() -> dict[str, bool]:
    """Its fields, and whether each may be none: to ask what a struct has takes a millisecond."""
    return {field.name: field.default is None for field in fields(Policy)}


def server_settings(settings: Settings) -> OwnerSettings:
    """What counts for owners that have set nothing of their own."""
    return OwnerSettings(
        timezone=settings.timezone,
        date_order=settings.date_order,
        working_days=settings.working_days,
        calendar=settings.calendar,
    )


def planner_of(settings: Settings) -> Planner:
    return Planner(
        target=settings.tasks_target,
        owner=settings.owner,
        timezone=settings.timezone,
        max_failures=settings.max_failures,
        policy=default_policy(settings),
        users=task_users(settings),
    )


def users_of(settings: Settings, name: str, kind: str = "", owners: Any = None) -> Users:
    """Return who may use a target according to the settings; `owners` comes from its own table.

    `kind` is empty for a handler, which is in no settings.
    """
    given = None if owners is None else _owners(owners, f"targets.{name}.owners")
    reads_words = bool(kind) and target_kind(kind, f"targets.{name}.kind").read_as_words
    by_kind = frozenset({settings.owner}) if reads_words else ANYONE
    # Whoever connects a table of tasks has opened the way to where tasks go, for tasks and nothing else.
    of_tasks = ANYONE if name == settings.tasks_target else by_kind
    return Users(
        owners=by_kind if given is None else given,
        task_owners=of_tasks if given is None else given,
        operator=settings.owner,
        chats=settings.chats,
        is_chat=kind == "table",
    )


def task_users(settings: Settings) -> Users:
    """Return who may use the target of tasks, for tasks."""
    name = settings.tasks_target
    target = settings.targets.get(name, {})
    return users_of(settings, name, str(target.get("kind", "")), target.get("owners"))


def _owners(given: Any, field: str) -> frozenset[str]:
    fix = f'Give a list of names, such as ["ada", "bob"]; ["{EVERYONE}"] stands for everyone.'
    if not isinstance(given, list | tuple) or not given or not all(isinstance(one, str) and one for one in given):
        raise InvalidConfig(f"{given!r} is not a list of owners", field=field, fix=fix)
    if odd := next((one for one in given if EVERYONE in one and one != EVERYONE), ""):
        raise InvalidConfig(f"{odd!r} is not a name: {EVERYONE!r} stands alone, for everyone", field=field, fix=fix)
    return frozenset(given)

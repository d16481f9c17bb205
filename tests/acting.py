"""The verbs for whoever a test wants to be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from wakeful.model.alarm import DEFAULT_POLICY, INBOX, Alarm
from wakeful.model.requests import CreateRequest, Defaults, EditRequest, OnConflict, Origin, Wanted
from wakeful.rules.create import create
from wakeful.rules.wanted import wanted_alarm, wanted_change
from wakeful.service import Alarms, Caller, Created, Service

USUAL = Defaults(timezone="UTC", target=INBOX, max_failures=5, policy=DEFAULT_POLICY)


class Draft:
    """A request with who makes it, in Python's own types: `delay` is a timedelta, `payload` is JSON as text."""

    def __init__(self, **given: Any) -> None:
        of_origin = {name: given.pop(name) for name in Origin.__struct_fields__ if name in given}
        self.origin = Origin(**of_origin)
        self.asked = CreateRequest(**_in_json_terms(given))

    @property
    def wanted(self) -> Wanted:
        return wanted_alarm(self.asked, USUAL)

    def alarm(self, *, id: str, now: datetime) -> Alarm:
        return create(self.wanted, self.origin, id=id, now=now)


def edit(**asked: Any) -> Wanted:
    """A change somebody asks for, in the same terms."""
    return wanted_change(EditRequest(**_in_json_terms(asked)), DEFAULT_POLICY)


def _in_json_terms(asked: dict[str, Any]) -> dict[str, Any]:
    given = {("delay_seconds" if name == "delay" else name): value for name, value in asked.items()}
    if "payload" in given:
        given["payload"] = Raw(given["payload"].encode(errors="surrogatepass"))
    return given


def acting(service: Service, owner: str, *, limited: bool = False, by: str = "", via: str = "test") -> Alarms:
    return Alarms(service, Caller(owner=owner, via=via, by=by, limited=limited, remote=limited))


async def keep_many(service: Service, drafts: Sequence[Draft], *, limited: bool = False) -> list[Created]:
    [owner] = {draft.origin.owner_did for draft in drafts}
    return await acting(service, owner, limited=limited).create_many([draft.asked for draft in drafts])


async def keep(
    service: Service,
    draft: Draft,
    *,
    on_conflict: OnConflict | None = None,
    limited: bool = False,
    by: str = "",
    connection: Any = None,
) -> Created:
    origin = draft.origin
    asked = replace(draft.asked, on_conflict=on_conflict)
    alarms = acting(service, origin.owner_did, limited=limited, by=by)
    by_and_via = origin.created_by, origin.created_via
    if connection is None:
        return await alarms.create(asked, origin=by_and_via)
    async with alarms.within(connection) as tx:
        return await tx.create(asked, origin=by_and_via)

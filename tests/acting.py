"""The verbs for whoever a test wants to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from wakeful.alarm import Draft
from wakeful.alarm.request import CreateRequest, OnConflict, request_of
from wakeful.service import Alarms, Caller, Created, Service


def acting(service: Service, owner: str, *, limited: bool = False, by: str = "", via: str = "test") -> Alarms:
    return service.of(Caller(owner=owner, via=via, by=by, limited=limited, remote=limited))


def asked_for(draft: Draft) -> CreateRequest:
    """The request that makes this draft."""
    fields: dict[str, Any] = asdict(draft)
    fields["delay_seconds"] = fields.pop("delay")
    known = {name: value for name, value in fields.items() if name in CreateRequest.__struct_fields__ and value != ""}
    payload = known.pop("payload")
    request = request_of(CreateRequest, {"wake_message": "", **known})
    return type(request)(**(_fields(request) | {"payload": payload.encode(errors="surrogatepass")}))


def _fields(request: CreateRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in CreateRequest.__struct_fields__}


async def keep_many(service: Service, drafts: Sequence[Draft], *, limited: bool = False) -> list[Created]:
    [owner] = {draft.owner_did for draft in drafts}
    return await acting(service, owner, limited=limited).create_many([asked_for(draft) for draft in drafts])


async def keep(
    service: Service,
    draft: Draft,
    *,
    on_conflict: OnConflict | None = None,
    limited: bool = False,
    by: str = "",
    connection: Any = None,
) -> Created:
    fields = _fields(asked_for(draft)) | {"on_conflict": on_conflict}
    alarms = acting(service, draft.owner_did, limited=limited, by=by)
    return await alarms.create(
        CreateRequest(**fields), origin=(draft.created_by, draft.created_via), connection=connection
    )

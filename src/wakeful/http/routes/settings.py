"""The caller's own settings over HTTP: zone, date order, working days and calendar of holidays."""

from __future__ import annotations

from typing import Final

from msgspec.structs import asdict
from starlette.responses import Response

from wakeful.http import answers as shape
from wakeful.http.endpoint import Context
from wakeful.http.operations import Operation, OperationRequest
from wakeful.http.security.guard import answer, body
from wakeful.model.owner_settings import OwnerSettingsView, SettingsRequest


async def read(context: Context, call: OperationRequest) -> Response:
    return await _answer(context, await context.of(call).owner_settings())


async def change(context: Context, call: OperationRequest) -> Response:
    asked = await body(call.request, SettingsRequest)
    return await _answer(context, await context.of(call).change_settings(asked))


async def _answer(context: Context, found: OwnerSettingsView) -> Response:
    return answer(shape.SettingsAnswer(**asdict(found), now=await context.now()))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/settings",
        run=read,
        says="The zone, date order, working days and calendar that count for the caller's alarms",
        scope="read",
        answers={200: shape.SettingsAnswer},
        for_wakes=True,  # in which zone its times are read
    ),
    Operation(
        method="PATCH",
        path="/v1/settings",
        run=change,
        says="Change the caller's own settings, for all alarms to come",
        scope="write",
        body=SettingsRequest,
        answers={200: shape.SettingsAnswer},
    ),
)

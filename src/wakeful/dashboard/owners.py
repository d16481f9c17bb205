"""`/owners`: who has how much here, and the tokens by which they come in. For whoever runs this server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from starlette.responses import Response

from wakeful.dashboard.page import Visit
from wakeful.errors import Conflict
from wakeful.schedule import duration
from wakeful.service.diagnosis import size
from wakeful.service.figures import OWNER_ALARMS, owners
from wakeful.service.tokens import SCOPES, TokenVerbs, outlived, token_state

PAGE: Final = 20
TOKENS: Final = 200  # shown, the newest
FAILED_WITHIN: Final = timedelta(days=1)


async def page(visit: Visit) -> Response:
    visit.principal.need("admin")
    return await _shown(visit)


async def make_token(visit: Visit) -> Response:
    """Show the new token on the page that answers: it is nowhere else, and never shown again."""
    visit.principal.need("admin")
    lasts = visit.field("expires")
    text, token = await TokenVerbs(visit.context.store).new(
        visit.field("owner"),
        visit.fields("scope"),
        lasts=duration(lasts) if lasts else None,
        label=visit.field("label"),
        made_by=visit.principal.token_id,
    )
    return await _shown(visit, made=(text, token))


async def revoke_token(visit: Visit) -> Response:
    visit.principal.need("admin")
    id = visit.request.path_params["id"]
    if visit.field("typed") != id:
        raise Conflict(
            "revoking a token cannot be undone", field="typed", fix=f"Type {id} to say that you mean this one."
        )
    lasts = visit.context.settings.chain_token_lasts
    revoked = await TokenVerbs(visit.context.store).revoke(id, wakes_within=lasts)
    said = f"Token {revoked.id} is revoked; it is refused within two seconds."
    return visit.back("/owners", " ".join([said, *outlived(revoked)]))


async def _shown(visit: Visit, made: Any = None) -> Response:
    service, settings = visit.context.service, visit.context.settings
    now, after = await service.now(), visit.query("after")
    found = await owners(service, after=after, limit=PAGE + 1, since=now - FAILED_WITHIN)
    tokens = sorted(await TokenVerbs(visit.context.store).all(), key=lambda token: token.created_at, reverse=True)
    values: dict[str, Any] = {
        "owners": found[:PAGE],
        "next_owner": found[PAGE - 1].owner if len(found) > PAGE else "",
        "is_first": not after,
        "most": OWNER_ALARMS,
        "quota_active": settings.quota_active,
        "quota_bytes": settings.quota_bytes,
        "tokens": [(token, token_state(token, now)) for token in tokens[:TOKENS]],
        "more_tokens": max(0, len(tokens) - TOKENS),
        "has_live": any(token.is_live(now) for token in tokens),
        "scopes": SCOPES,
        "made": made,
        "size": size,
        "now": now,
    }
    return visit.show("owners.html", here="owners", **values)

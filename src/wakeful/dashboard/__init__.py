"""The dashboard: pages for people, at `/`, made by the server from the same verbs as every other interface.

A page works without scripts; with them it is live. Nothing is loaded from elsewhere, and no script stands in a page.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from wakeful.dashboard import alarm, bulk, editing, health, lists, new, now, owners, signing_in, targets, timeline
from wakeful.dashboard.page import Dashboard, SignInLink, follow, static
from wakeful.http.endpoint import Context
from wakeful.http.sse import LiveContext

__all__ = ["SignInLink", "routes"]


def routes(context: Context, live: LiveContext, link: SignInLink) -> list[BaseRoute]:
    """The pages, or none where the setting `dashboard` turns them off."""
    if not context.settings.dashboard:
        return []
    dashboard = Dashboard(context, live, link)
    get = {
        "/": now.page,
        "/now/needs": now.needs,
        "/now/next": now.coming,
        "/now/tail": now.tail,
        "/new": new.page,
        "/alarms": lists.alarms,
        "/alarms/{id}": alarm.page,
        "/alarms/{id}/edit": editing.page,
        "/alarms/{id}/raw/{what}": alarm.raw,
        "/fires": lists.fires,
        "/bulk/{what}": bulk.page,
        "/timeline": timeline.page,
        "/timeline/coming": timeline.coming,
        "/targets": targets.page,
        "/health": health.page,
        "/health.json": health.figures,
        "/owners": owners.page,
        "/live": follow,
    }
    post = {
        "/new": new.create,
        "/new/preview": new.preview,
        "/alarms/{id}/edit": editing.save,
        "/alarms/{id}/{verb}": bulk.on_alarm,
        "/bulk/{what}": bulk.act,
        "/fires/{id}/{verb}": bulk.on_fire,
        "/targets/{id}/test": targets.test,
        "/targets/{id}/{verb}": bulk.on_target,
        "/owners/tokens": owners.make_token,
        "/owners/tokens/{id}/revoke": owners.revoke_token,
        "/logout": signing_in.leave,
    }
    return [
        *(Route(path, dashboard.reading(page), methods=["GET"]) for path, page in get.items()),
        *(Route(path, dashboard.changing(action), methods=["POST"]) for path, action in post.items()),
        Route("/login", dashboard.open(signing_in.page), methods=["GET"]),
        Route("/login", dashboard.open(signing_in.enter), methods=["POST"]),
        Route("/static/{name}", static, methods=["GET"]),
        Route("/favicon.ico", static, methods=["GET"]),
    ]

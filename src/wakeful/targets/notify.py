"""A notification to people, by apprise: chat, mail, push. An extra, set up by operators only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import ERROR_LIMIT
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.targets.calls import Threads
from wakeful.targets.text import described, whose, without

# These reach whatever address or device they are given: for HTTP there is the webhook, which checks addresses.
UNSAFE: Final = (
    frozenset({"json", "jsons", "xml", "xmls", "form", "forms", "apprise", "apprises", "syslog", "rsyslog"})
    | {"dbus", "qt", "glib", "gio", "kde", "gnome", "macosx", "windows", "growl", "blink1"}
    | {"file", "exec", "shell", "script"}
)
_AT_ONCE: Final = 4


class Notify:
    """Settings:

    urls      where to: apprise URLs, for example tgram://… or mailto://…
    schemes   the only schemes that `urls` may use; empty: all that apprise has, but for generic and local ones
    timeout   seconds one notification may take
    """

    def __init__(
        self, *, urls: Sequence[str], schemes: Sequence[str] = (), timeout: float = 60, operator: str = ""
    ) -> None:
        if not urls or isinstance(urls, str):
            raise InvalidConfig("give a list of at least one apprise URL", field="urls")
        if timeout <= 0:
            raise InvalidConfig(f"{timeout} is not more than 0 seconds", field="timeout")
        self._urls = tuple(urls)
        self._timeout = timeout
        self._operator = operator
        self._services = _services(self._urls, frozenset(schemes))
        self._threads = Threads(_AT_ONCE, "wakeful-notify")

    async def deliver(self, wake: Wake) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                sent = await self._threads.run(self._send, wake.label or "wakeful", self._text(wake))
        except TimeoutError:
            return Failed(f"no answer within {self._timeout:g} s", unhealthy=True)
        except Exception as error:  # whatever one of apprise's 170 plugins raises
            return Failed(without(described(error, ERROR_LIMIT), self._urls), unhealthy=True)
        if not sent:
            return Failed("not every notification service accepted it", unhealthy=True)
        return Delivered(f"sent to {len(self._urls)} notification services")

    def _text(self, wake: Wake) -> str:
        return whose(wake.owner_did, wake.alarm.created_by, self._operator) + wake.message

    async def close(self) -> None:
        self._threads.close()

    def _send(self, title: str, body: str) -> bool:
        # A result that is true when every service took it; older apprises: True, False, or None for nobody to notify.
        return bool(self._services.notify(body=body, title=title))


def _services(urls: Sequence[str], schemes: frozenset[str]) -> Any:
    try:
        import apprise
    except ImportError:
        raise InvalidConfig("apprise is not installed", field="kind", fix="pip install wakeful[notify]") from None
    asset = apprise.AppriseAsset(async_mode=False, storage_mode=apprise.PersistentStoreMode.MEMORY, secure_logging=True)
    services = apprise.Apprise(asset=asset)
    for number, url in enumerate(urls):
        scheme = url.partition("://")[0].lower()
        if scheme not in schemes and (schemes or scheme in UNSAFE):
            fix = f"Allowed: {', '.join(sorted(schemes))}." if schemes else "Add it to the setting schemes to allow it."
            raise InvalidConfig(f"the scheme {scheme[:40]!r} is not allowed", field=f"urls[{number}]", fix=fix)
        # The URL is not repeated in the error: it holds the credentials.
        if not services.add(url):
            raise InvalidConfig("apprise does not understand this URL", field=f"urls[{number}]")
    return services

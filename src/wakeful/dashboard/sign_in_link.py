"""The link that `serve` prints: whoever reads its output is signed in by it, once and soon."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Final

from wakeful.clock import Clock
from wakeful.http.security.auth import SCOPES, mint
from wakeful.store import Store

GOOD_FOR: Final = timedelta(minutes=10)
SESSION: Final = timedelta(hours=12)
LABEL: Final = "dashboard sign-in link"  # of the tokens it makes: signing out revokes these


class SignInLink:
    """One secret at a time, in memory only: it ends with the process, with its use, or after ten minutes.

    Several processes that serve one port have the same: its token is on record under the secret's own id, once.
    """

    def __init__(self, store: Store, owner: str, clock: Clock) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._secret = ""
        self._until: datetime | None = None

    def offer(self, secret: str = "", until: datetime | None = None) -> str:
        """Make a secret, or take the one that other processes have too; the one before is good no longer."""
        self._secret = secret or secrets.token_urlsafe(32)
        self._until = until or self._clock.now() + GOOD_FOR
        return self._secret

    async def take(self, secret: str) -> str | None:
        """Exchange the secret for a token of the operator's that ends after twelve hours; None if it is not good."""
        kept, until = self._secret, self._until
        is_same = hmac.compare_digest(secret.encode(), kept.encode()) and kept != ""
        if not is_same or until is None or self._clock.now() >= until:
            return None
        self._secret = ""  # before anything is waited for: of two who come at once, one gets in
        try:
            now, id = await self._store.now(), hashlib.sha256(kept.encode()).hexdigest()[:16]
            text, token = mint(self._owner, SCOPES, now=now, lasts=SESSION, label=LABEL, id=id)
            is_first = await self._store.access.add_token(token)
        except BaseException:
            self._secret = kept
            raise
        return text if is_first else None

"""Who asks, and of what: the first parameter of every verb."""

from __future__ import annotations

from typing import Protocol

from wakeful.service.caller import Caller
from wakeful.service.core import Service


class Session(Protocol):
    """`service`: what the verbs read and write; inside a caller's own transaction it writes there.

    `outside`: the same without that transaction, for what is looked up besides.
    """

    @property
    def service(self) -> Service: ...

    @property
    def outside(self) -> Service: ...

    @property
    def caller(self) -> Caller: ...


def in_transaction(session: Session) -> bool:
    return session.outside is not session.service

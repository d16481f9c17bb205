"""What a neighbour run writes down: what the quiet owner asked and got, and when a wake reached whom."""

from __future__ import annotations

from msgspec import Struct


class Asked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of the quiet owner's. Moments are unix seconds."""

    at: float
    took: float
    verb: str  # create or list
    status: int  # 0: no answer came
    alarm: str = ""
    due: float = 0.0  # of what was set: when it fires, as the answer says
    target: str = ""


class Woken(Struct, frozen=True, kw_only=True):
    """One wake, as it arrived."""

    at: float
    receiver: str
    owner: str
    alarm: str


class Stall(Struct, frozen=True):
    """The machine itself stood still: then nobody is late."""

    at: float  # its end
    seconds: float


class Tried(Struct, frozen=True, kw_only=True):
    """How one attack went."""

    what: str  # in words
    came: dict[str, int]  # answers, by kind
    through: str = ""  # what got through that should not have; empty: it was held


class Window(Struct, frozen=True, kw_only=True):
    """Attacks that were made at once, and when."""

    began: float
    ended: float
    attacks: dict[str, Tried]


class Sample(Struct, frozen=True, kw_only=True):
    """One of wakeful's processes at one moment."""

    at: float
    process: str
    rss: int
    descriptors: int


class Evidence(Struct, frozen=True, kw_only=True):
    """All there is to judge one store by."""

    store: str
    asked: list[Asked]
    woken: list[Woken]
    stalls: list[Stall]
    windows: list[Window]
    samples: list[Sample]
    log_bytes: int
    ended: list[str]  # processes of wakeful's that were gone
    read_at: float

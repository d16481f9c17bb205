"""How much goes on in a round of the fault run, and by which lease and tick: a list of profiles."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from wakeful.settings import Settings

STEADY: Final = 1.6  # seconds that the receiver of a stream takes for each wake
_DEFAULTS: Final = Settings()


class Profile(Struct, frozen=True, kw_only=True):
    name: str
    lease: float
    tick: float
    stream: float  # alarms a second set in batches for a slow receiver, beside those set one by one
    each: int  # faults in a round of a long run
    warm: float  # seconds of load before the first fault
    rest: float  # seconds of load after a fault
    slack: float  # after lease and tick, until what a fault held up has come


USUAL: Final = Profile(name="usual", lease=4.0, tick=0.2, stream=0.0, each=9, warm=3.0, rest=4.7, slack=1.5)
# 300 a second for 1.6 s each: 480 deliveries in flight. With the default lease, what a killed worker held comes two
# minutes later: so one fault in a round, and the load ends soon after it.
BUSY: Final = Profile(
    name="busy",
    lease=_DEFAULTS.lease.total_seconds(),
    tick=_DEFAULTS.tick.total_seconds(),
    stream=300.0,
    each=1,
    warm=10.0,
    rest=8.0,
    slack=5.0 + STEADY,
)
PROFILES: Final = {profile.name: profile for profile in (USUAL, BUSY)}

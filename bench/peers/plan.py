"""What is measured, of whom and with how many: pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bench.peers.contestants import BARE, PEERS, WAKEFUL, Contestant, Store

WORKERS = (1, 2, 4)


class Sizes(Struct, frozen=True, kw_only=True):
    jobs: int = 100_000  # drained
    creates: int = 30_000
    bulk: int = 100_000
    pending: int = 1_000_000
    spread: int = 300  # alarms for an idle worker
    spread_over: float = 10.0  # seconds
    busy_per_s: int = 5_000
    busy_for: float = 10.0
    requests: int = 6_000
    webhooks: int = 10_000

    @classmethod
    def of(cls, jobs: int, pending: int) -> Sizes:
        return cls(jobs=jobs, creates=max(1_000, jobs * 3 // 10), bulk=jobs, pending=pending)


SHORT = Sizes(
    jobs=300,
    creates=200,
    bulk=1_000,
    pending=1_000,
    spread=20,
    spread_over=1.0,
    busy_per_s=500,
    busy_for=1.0,
    requests=200,
    webhooks=100,
)


class Measure(Struct, frozen=True):
    """One line of the plan: the contestants are run in turn, each with a database of its own."""

    name: str
    store: Store
    title: str
    asked: dict[str, Any]  # of the driver
    who: tuple[Contestant, ...]
    figures: tuple[str, ...] = ("per_s",)
    share: str = ""  # the contestant's own part of the jobs

    @property
    def family(self) -> str:
        """What `--only` names: `workers` for any number of them."""
        return self.name.partition(" ")[0]

    def task(self, contestant: Contestant) -> dict[str, Any]:
        part = getattr(contestant, self.share) if self.share else 1
        return {**self.asked, "store": self.store, "jobs": max(20, round(part * self.asked["jobs"]))}


def plan(sizes: Sizes, peers: tuple[Contestant, ...] = PEERS) -> list[Measure]:
    stores: tuple[Store, ...] = ("postgres", "sqlite")
    return [
        *(measure for store in stores for measure in _beside_peers(sizes, store, peers)),
        *(measure for store in stores for measure in _alone(sizes, store)),
        *_workers(sizes),
    ]


def _beside_peers(sizes: Sizes, store: Store, peers: tuple[Contestant, ...]) -> list[Measure]:
    here = tuple(peer for peer in peers if store in peer.stores)
    bulk = tuple(peer for peer in here if peer.bulk_share)
    timely = tuple(peer for peer in here if peer.name == "apscheduler")  # the others poll
    spread = {"measure": "punctual", "jobs": sizes.spread, "over": sizes.spread_over}
    found = [
        Measure(
            "drain",
            store,
            "jobs due at once, finished per second",
            {"measure": "drain", "jobs": sizes.jobs},
            (WAKEFUL, *here, BARE),
            share="drain_share",
        ),
        Measure(
            "create",
            store,
            "created by 64 callers at once, per second",
            {"measure": "create", "jobs": sizes.creates},
            (WAKEFUL, *here),
            share="create_share",
        ),
        Measure("punctual", store, "late by in ms, idle", spread, (WAKEFUL, *timely), figures=("p50_ms", "p99_ms")),
    ]
    if bulk:
        asked = {"measure": "bulk", "jobs": sizes.bulk}
        title = "created by calls of 1,000, per second"
        found.insert(2, Measure("bulk", store, title, asked, (WAKEFUL, *bulk), share="bulk_share"))
    return found


def _alone(sizes: Sizes, store: Store) -> list[Measure]:
    def alone(name: str, title: str, asked: dict[str, Any], figure: str = "per_s") -> Measure:
        return Measure(name, store, title, asked, (WAKEFUL,), figures=(figure,))

    drain = {"measure": "drain", "jobs": sizes.jobs}
    busy = {"measure": "punctual", "jobs": int(sizes.busy_per_s * sizes.busy_for), "over": sizes.busy_for}
    webhooks = {"measure": "webhooks", "jobs": sizes.webhooks}
    requests = {"measure": "http", "jobs": sizes.requests}
    return [
        alone("herd", "series due at one moment, per second", {"measure": "herd", "jobs": sizes.jobs}),
        alone("empty", "drain, none pending, per second", drain),
        alone("pending", f"drain beside {sizes.pending:,} pending, per second", drain | {"pending": sizes.pending}),
        alone("busy", f"late by at {sizes.busy_per_s:,}/s, p99 in ms", busy, "p99_ms"),
        alone("webhooks", "webhooks for a second of processor, of the bare client's", webhooks, "ratio"),
        alone("http", "durable create over HTTP, µs of processor", requests, "cpu_us"),
    ]


def _workers(sizes: Sizes) -> list[Measure]:
    return [
        Measure(
            f"workers {count}",
            "postgres",
            f"drain by {count} worker{'s' * (count > 1)}, per second",
            {"measure": "drain", "jobs": sizes.jobs, "workers": count},
            (WAKEFUL,),
        )
        for count in WORKERS
    ]

"""Who is measured, at which version, where, and what each keeps of a job that is done."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Store = Literal["postgres", "sqlite"]


class Contestant(Struct, frozen=True):
    name: str
    kind: Literal["own", "python", "node"]
    driver: str  # of bench/peers/drivers
    stores: tuple[Store, ...]
    records: str
    """What it keeps, or skips, of a job that is done: a figure means nothing without it."""
    # Of the jobs that wakeful gets: slower ones get fewer, so that each runs for seconds and none for minutes.
    drain_share: float = 1.0
    create_share: float = 1.0
    bulk_share: float = 1.0  # 0 where it has no call for many


WAKEFUL = Contestant(
    "wakeful", "own", "wakeful", ("postgres", "sqlite"), "every fire, with when and how it went; at least once"
)
BARE = Contestant(
    "bare loop", "own", "bare_loop", ("postgres", "sqlite"), "the same rows as wakeful, from a plain loop, best batch"
)
PEERS = (
    Contestant(
        "graphile-worker", "node", "graphile-worker.cjs", ("postgres",), "deletes a finished job", create_share=0.3
    ),
    Contestant("pg-boss", "node", "pg-boss.cjs", ("postgres",), "keeps the job's row as completed", create_share=0.3),
    Contestant(
        "pgqueuer",
        "python",
        "pgqueuer",
        ("postgres",),
        "deletes the job, keeps a line in a log table",
        drain_share=0.4,
        create_share=0.3,
    ),
    Contestant(
        "procrastinate",
        "python",
        "procrastinate",
        ("postgres",),
        "keeps the job's row and its events",
        drain_share=0.02,
        create_share=0.2,
        bulk_share=0.3,
    ),
    Contestant(
        "dbos",
        "python",
        "dbos",
        ("postgres",),
        "keeps the workflow's row, input and result",
        drain_share=0.02,
        create_share=0.1,
        bulk_share=0.05,
    ),
    Contestant(
        "apscheduler",
        "python",
        "apscheduler",
        ("postgres", "sqlite"),
        "deletes a job before it has run: at most once",
        drain_share=0.04,
        create_share=0.2,
        bulk_share=0,
    ),
    Contestant(
        "huey",
        "python",
        "huey",
        ("sqlite",),
        "deletes a job before it has run: at most once",
        drain_share=0.1,
        create_share=0.3,
        bulk_share=0,
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}

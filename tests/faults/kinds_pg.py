"""Faults of PostgreSQL, of the way to it, and of what stands in between."""

from __future__ import annotations

import signal
import time
from typing import Final

from .ground import DISPATCHERS, LEASE, Ground
from .kinds import EVERYWHERE, Hit, in_a_batch, kind
from .places import BouncerPlace, FailoverPlace, PostgresPlace
from .world import bouncer
from .world.postgres import Cluster

STORE: Final = ("store",)
PG: Final = "postgres"


def cluster(ground: Ground) -> Cluster:
    assert isinstance(ground.place, PostgresPlace | BouncerPlace | FailoverPlace)
    return ground.place.cluster


def network(ground: Ground) -> PostgresPlace:
    assert isinstance(ground.place, PostgresPlace)
    return ground.place


# The server


@kind("PostgreSQL stopped at once", PG, "bouncer")
def immediate_stop(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).stop("immediate")
    try:
        ground.pause(1.5)
    finally:
        cluster(ground).start_again()
    return Hit(hits=STORE)


@kind("PostgreSQL restarted", PG, "bouncer", profiles=EVERYWHERE)
def restart(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).stop("fast")
    cluster(ground).start_again()
    return Hit(hits=STORE)


@kind("PostgreSQL killed", PG)
def kill(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).kill()
    try:
        ground.pause(1.0)
    finally:
        cluster(ground).start_again()
    return Hit(hits=STORE)


@kind("PostgreSQL away for longer than a lease", PG)
def away(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).stop("fast")
    try:
        ground.pause(LEASE * 1.6)
    finally:
        cluster(ground).start_again()
    return Hit(hits=STORE)


@kind("PostgreSQL frozen", PG)
def freeze(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).freeze()
    try:
        ground.pause(LEASE * 1.2)
    finally:
        cluster(ground).thaw()
    return Hit(hits=STORE)


@kind("read only", PG)
def read_only(ground: Ground) -> Hit:
    cluster(ground).read_only(True)
    try:
        ground.pause(3)
    finally:
        cluster(ground).read_only(False)
    return Hit(hits=STORE)


@kind("all sessions ended by the administrator", PG, "bouncer")
def terminated(ground: Ground) -> Hit:
    in_a_batch(ground)
    count = cluster(ground).terminate_backends()
    return Hit(hits=STORE, note=f"{count} sessions")


@kind("LISTEN cut", PG)
def listen_cut(ground: Ground) -> Hit:
    count = cluster(ground).cut_listen()
    ground.burst(40, ahead=0.3)
    return Hit(hits=STORE, note=f"{count} sessions")


@kind("rows locked", PG)
def rows_locked(ground: Ground) -> Hit:
    ground.burst(60, ahead=1.0)
    with cluster(ground).lock_rows(LEASE * 3):
        ground.pause(LEASE)
    return Hit(hits=STORE)


@kind("table locked", PG)
def table_locked(ground: Ground) -> Hit:
    in_a_batch(ground, 60)
    with cluster(ground).lock_table(LEASE * 3):
        ground.pause(LEASE)
    return Hit(hits=STORE)


@kind("no connections left", PG)
def no_connections(ground: Ground) -> Hit:
    with cluster(ground).use_up_connections():
        ground.pause(3)
    return Hit(hits=STORE)


@kind("restored from a backup (PostgreSQL)", PG, last=True)
def restored(ground: Ground) -> Hit:
    since = time.time()
    cluster(ground).backup()
    ground.pause(4)
    for name in DISPATCHERS:
        ground.keeper.stop(name, signal.SIGKILL)
    cluster(ground).restore()
    for name in DISPATCHERS:
        ground.keeper.start(name)
    ground.everybody_up()
    return Hit(hits=STORE, forgets_since=since)


# The way to it


@kind("half-open connections", PG)
def half_open(ground: Ground) -> Hit:
    """Nothing comes through any more, and nobody is told."""
    in_a_batch(ground)
    network(ground).proxy.half_open()
    try:
        ground.pause(LEASE)
    finally:
        network(ground).proxy.heal()
    return Hit(hits=STORE)


@kind("connections reset", PG)
def cut(ground: Ground) -> Hit:
    in_a_batch(ground)
    network(ground).proxy.reset()
    return Hit(hits=STORE)


@kind("a slow network", PG)
def slow_network(ground: Ground) -> Hit:
    network(ground).proxy.delay(150)
    try:
        ground.pause(3)
    finally:
        network(ground).proxy.heal()
    return Hit(hits=STORE)


# pgbouncer


def no_bouncer() -> str:
    return "" if bouncer.available() else "pgbouncer"


@kind("pgbouncer killed", "bouncer", missing=no_bouncer)
def bouncer_killed(ground: Ground) -> Hit:
    assert isinstance(ground.place, BouncerPlace)
    in_a_batch(ground)
    ground.place.bouncer.kill()
    try:
        ground.pause(1.0)
    finally:
        ground.place.bouncer.start_again()
    return Hit(hits=STORE)


# Failover


@kind("primary killed, replica takes over", "failover")
def primary_killed(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).kill()
    cluster(ground).promote()
    ended = time.time()
    _new_replica(ground)
    return Hit(hits=STORE, ended=ended)


@kind("primary frozen, replica takes over", "failover")
def primary_frozen(ground: Ground) -> Hit:
    in_a_batch(ground)
    cluster(ground).freeze()
    cluster(ground).promote()
    ended = time.time()
    ground.pause(LEASE * 2)  # it stays frozen: whoever still waits for it waits in vain
    _new_replica(ground)
    return Hit(hits=STORE, ended=ended)


def _new_replica(ground: Ground) -> None:
    ground.pause(LEASE)
    cluster(ground).rebuild_replica()

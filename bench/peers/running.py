"""Runs the plan: contestants in turn, round after round, each in a process and a database of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.peers.contestants import Contestant
from bench.peers.figures import Run, short
from bench.peers.installing import ROOT, NotInstalled, command, installed, last_line
from bench.peers.places import Places
from bench.peers.plan import Measure
from bench.peers.stopping import Stop, Stopped

TIMEOUT = 1_800.0

Say = Callable[[str], None]


class Failed(Exception):
    """What a driver said when it could not measure."""


def installed_peers(peers: tuple[Contestant, ...], say: Say) -> tuple[dict[str, Path], dict[str, str]]:
    """The environment of each peer; and of those that cannot be had, why."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # most of it is waiting for what is fetched
        found = dict(zip(peers, pool.map(_installed, peers), strict=True))
    there = {peer.name: place for peer, place in found.items() if isinstance(place, Path)}
    missing = {peer.name: f"not installed: {why}" for peer, why in found.items() if isinstance(why, NotInstalled)}
    for name, why in missing.items():
        say(f"{name}: {why}")
    return there, missing


def _installed(peer: Contestant) -> Path | NotInstalled:
    try:
        return installed(peer)
    except NotInstalled as error:
        return error


def run_all(
    measures: list[Measure], places: Places, environments: dict[str, Path], rounds: int, stop: Stop, say: Say
) -> tuple[list[Run], list[str]]:
    """What was found, and what failed: a driver that fails is a finding too, and the others go on."""
    runs: list[Run] = []
    failures: list[str] = []
    number = 1
    try:
        for number, measure, contestant in _turns(measures, rounds):
            where = f"round {number}, {measure.name}, {measure.store}, {contestant.name}"
            try:
                answer = run_one(measure, contestant, places, environments.get(contestant.name), stop)
            except Failed as error:
                failures.append(f"{where}: {error}")
                say(failures[-1])
            else:
                runs.append(Run(number, measure.name, measure.store, contestant.name, answer))
                say(f"{where}: {short(answer[measure.figures[0]])}")
    except Stopped:  # what was found so far is not lost
        failures.append(f"stopped in round {number} of {rounds}")
    return runs, failures


def _turns(measures: list[Measure], rounds: int) -> Iterator[tuple[int, Measure, Contestant]]:
    for number in range(1, rounds + 1):
        for measure in measures:
            for contestant in measure.who:
                yield number, measure, contestant


def run_one(
    measure: Measure, contestant: Contestant, places: Places, environment: Path | None, stop: Stop
) -> dict[str, Any]:
    driver, variables = command(contestant, environment)
    with places.fresh(measure.store) as place:
        task = json.dumps({**measure.task(contestant), **place})
        done = _driven([*driver, task], variables, stop)
        found: dict[str, Any] = json.loads(done)
        if "dsn" in place:
            found["unlogged"] = _unlogged(places, place["dsn"])
    return found


def _driven(command: list[str], variables: dict[str, str], stop: Stop) -> str:
    stop.check()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    with (
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**kept, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # it may have processes of its own, which end with it
        ) as driver,
        stop.driving(driver),
    ):
        try:
            said, complained = driver.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {TIMEOUT:.0f} s") from None
    stop.check()
    if driver.returncode or not said.strip():
        raise Failed(last_line(complained) or f"it ended with {driver.returncode} and said nothing")
    return last_line(said)


def _unlogged(places: Places, dsn: str) -> list[str]:
    """Tables that a crash of the server empties: whoever has them is less durable there, and that is said."""
    sql = "select relname from pg_class where relpersistence = 'u' and relkind = 'r' order by 1"
    return [row["relname"] for row in places.ask(sql, dsn=dsn)]

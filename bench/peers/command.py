"""./scripts/bench peers [NAME …] [--short] [--rounds N] [--jobs N] [--pending N] [--only MEASURE …] [--json FILE]

Installs each peer in an environment of its own under .bench/, starts a PostgreSQL of its own, runs wakeful and the
peers in turn, and prints what it found and the table of goals. NAME is a peer, or `wakeful` for wakeful alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import msgspec

from bench.peers.contestants import BY_NAME, PEERS, WAKEFUL, Contestant
from bench.peers.figures import Figures, Run, beside, markdown, short, spread
from bench.peers.goals import verdicts
from bench.peers.places import places
from bench.peers.plan import SHORT, Measure, Sizes, plan
from bench.peers.running import installed_peers, run_all
from bench.peers.stopping import stopped_by_signals


class Report(msgspec.Struct, kw_only=True):
    """What --json keeps and --show prints again."""

    taken: str
    machine: dict[str, Any]
    sizes: Sizes
    rounds: int
    missing: dict[str, str]
    failures: list[str]
    runs: list[Run]


def main(arguments: list[str]) -> int:
    args = _parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as with Ctrl-C: what was started is ended
    report = msgspec.json.decode(args.show.read_bytes(), type=Report) if args.show else measured(args)
    if args.json:
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    print(told(report))
    return 1 if report.failures else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench peers", description=__doc__)
    families = sorted({measure.family for measure in plan(SHORT)})
    parser.add_argument("peer", nargs="*", choices=[*BY_NAME, WAKEFUL.name, []], default=[])
    parser.add_argument("--short", action="store_true", help="tiny counts, one round: whether it works, not how fast")
    parser.add_argument("--rounds", type=_positive, help="how often each is run; default 3, short 1")
    parser.add_argument("--jobs", type=_positive, default=100_000, help="how many are drained")
    parser.add_argument("--pending", type=_positive, default=1_000_000, help="how many wait beside them")
    parser.add_argument("--only", nargs="+", choices=families, metavar="MEASURE", help=", ".join(families))
    parser.add_argument("--json", type=_writable, help="keep everything that was found in this file")
    parser.add_argument("--show", type=Path, help="measure nothing; print the tables of a file kept by --json")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _writable(text: str) -> Path:
    """Found out now, not after an hour of measuring."""
    try:
        Path(text).open("ab").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {error.strerror}") from None
    return Path(text)


def measured(args: argparse.Namespace) -> Report:
    wanted = _wanted(args.peer)
    sizes = SHORT if args.short else Sizes.of(args.jobs, args.pending)
    rounds = args.rounds or (1 if args.short else 3)
    environments, missing = installed_peers(wanted, _say)
    there = tuple(peer for peer in wanted if peer.name in environments)
    measures = [one for one in plan(sizes, there) if not args.only or one.family in args.only]
    taken = datetime.now(UTC).isoformat(timespec="seconds")
    with stopped_by_signals() as stop, places() as all_places:
        machine = _machine() | {"postgres": all_places.settings()}
        runs, failures = run_all(measures, all_places, environments, rounds, stop, _say)
    machine["load_after"] = _load()
    return Report(
        taken=taken, machine=machine, sizes=sizes, rounds=rounds, missing=missing, failures=failures, runs=runs
    )


def _wanted(names: list[str]) -> tuple[Contestant, ...]:
    return tuple(peer for peer in PEERS if peer.name in names) if names else PEERS


def told(report: Report) -> str:
    """The whole report, in Markdown."""
    figures = Figures(report.runs)
    measured = {(run.measure, run.store) for run in report.runs}
    measures = [one for one in plan(report.sizes) if (one.name, one.store) in measured]
    tables = [_table(figures, one, figure) for one in measures if len(one.who) > 1 for figure in one.figures]
    alone = [_alone(figures, one, figure) for one in measures if len(one.who) == 1 for figure in one.figures]
    unlogged = sorted({f"{run.contestant}: {name}" for run in report.runs for name in run.answer.get("unlogged", ())})
    left_out = [f"{name}: {why}" for name, why in report.missing.items()] + report.failures
    return "\n\n".join(
        [
            f"Taken {report.taken}, {report.rounds} round{'s' * (report.rounds > 1)}, on {_said(report.machine)}.",
            *tables,
            *(["wakeful alone\n\n" + markdown(["", "store", "median", "least to most"], alone)] if alone else []),
            "Goals" + " (counts as small as these show that it works, not how fast it is)" * (report.sizes == SHORT),
            markdown(["measure", "reached", "goal", ""], _goals(report, figures)),
            *(["Unlogged tables, which a crash of the server empties: " + "; ".join(unlogged)] if unlogged else []),
            *(["Left out or failed:\n\n" + "\n".join(f"- {line}" for line in left_out)] if left_out else []),
        ]
    )


def _goals(report: Report, figures: Figures) -> list[list[str]]:
    judged = report.sizes != SHORT
    return [[one.measure, one.reached, one.goal, one.mark if judged else ""] for one in verdicts(figures)]


def _table(figures: Figures, measure: Measure, figure: str) -> str:
    head = ["", "median", "least to most", "wakeful ÷ it", "keeps of a finished job"]
    rows = beside(figures, measure.name, measure.store, figure)
    width = 5 if measure.name == "drain" else 4
    which = f", {figure.partition('_')[0]}" * (len(measure.figures) > 1)
    title = f"{measure.name}, {measure.store}: {measure.title}{which}"
    return f"{title}\n\n" + markdown(head[:width], [row[:width] for row in rows])


def _alone(figures: Figures, measure: Measure, figure: str) -> list[str]:
    found = figures.all(measure.name, measure.store, WAKEFUL.name, figure)
    return [f"{measure.name}: {measure.title}", measure.store, short(median(found)), spread(found)]


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "sqlite": {"wakeful": apsw.sqlite_lib_version(), "peers": sqlite3.sqlite_version},
        "node": _node(),
        "load_before": _load(),
    }


def _said(machine: dict[str, Any]) -> str:
    postgres = machine["postgres"]
    durable = f"fsync {postgres['fsync']}, synchronous_commit {postgres['synchronous_commit']}"
    load = f"load {machine['load_before']} before and {machine['load_after']} after"
    return (
        f"{machine['cores']} cores ({machine['cpu']}), {load}; Python {machine['python']}, "
        f"PostgreSQL {postgres['server_version']} ({durable}), SQLite {machine['sqlite']['wakeful']} "
        f"(peers {machine['sqlite']['peers']}; synchronous=full), node {machine['node'] or 'none'}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _node() -> str:
    try:
        return subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""python -m bench [create] [drain] [punctual] [scale] [http] [webhooks] [live] [hostile] [turns] [when] [reads]
                [dashboard] [--store sqlite|postgres] [--alarms 100000]
python -m bench peers …   beside other schedulers; bench/peers/command.py says how

Prints JSON lines. A ratio compares two figures of this run; absolute figures depend on the machine and its mood.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bench import create, drain, hostile, http, live, punctual, reads, turns, webhooks
from bench.worlds import World, worlds


def main() -> None:
    if sys.argv[1:2] == ["peers"]:
        from bench.peers.command import main as beside_peers

        raise SystemExit(beside_peers(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    names = [
        "create",
        "drain",
        "punctual",
        "scale",
        "http",
        "webhooks",
        "live",
        "hostile",
        "turns",
        "when",
        "reads",
        "dashboard",
    ]
    parser.add_argument("what", nargs="*", choices=[*names, []], default=[])
    parser.add_argument("--store", choices=["sqlite", "postgres"])
    parser.add_argument("--alarms", type=int, default=100_000, help="how many are drained, or shown")
    parser.add_argument(
        "--pending",
        type=int,
        default=1_000_000,
        help="how many wait beside them in `scale`, are one owner's and due in `turns`, or are there in `reads`",
    )
    args = parser.parse_args()
    wanted = args.what or names
    runs: dict[str, Callable[[World], Iterator[dict[str, Any]]]] = {
        "create": create.run,
        "drain": lambda world: drain.run(world, alarms=args.alarms),
        "punctual": punctual.run,
        "scale": lambda world: drain.scale(world, alarms=args.alarms, pending=args.pending),
        "http": http.run,
        "webhooks": webhooks.run,
        "live": live.run,
        "hostile": hostile.run,
        "turns": lambda world: turns.run(world, due=args.pending),
        "reads": lambda world: reads.run(world, rows=args.pending),
    }
    if "when" in wanted:
        from bench.when import run as when

        show(when())
    if "dashboard" in wanted:
        from bench.dashboard import run as dashboard  # needs a browser

        runs["dashboard"] = lambda world: dashboard(world, alarms=args.alarms, fires=10 * args.alarms)
    with worlds(args.store) as all_worlds:
        for world in all_worlds:
            for name, run in runs.items():
                if name in wanted:
                    show(run(world))


def show(results: Iterator[dict[str, Any]]) -> None:
    for result in results:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

"""Each peer in an environment of its own under .bench/, at the version pinned in pins/."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.environments import NotInstalled as NotInstalled
from bench.environments import environment
from bench.environments import last_line as last_line
from bench.peers.contestants import Contestant

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"  # git ignores it
PINS = Path(__file__).parent / "pins"
DRIVERS = Path(__file__).parent / "drivers"


def pins(peer: Contestant) -> Path:
    """For node the versions of the peer and its driver only: a lock of npm's would hold addresses."""
    return PINS / f"{peer.name}{'.json' if peer.kind == 'node' else '.lock'}"


def installed(peer: Contestant) -> Path:
    """The environment of a peer."""
    return environment("node" if peer.kind == "node" else "python", pins(peer), CACHE / peer.name)


def command(contestant: Contestant, place: Path | None) -> tuple[list[str], dict[str, str]]:
    """How its driver is called, and what the environment must say."""
    if contestant.kind == "node":
        assert place is not None
        return ["node", str(DRIVERS / contestant.driver)], {"NODE_PATH": str(place / "node_modules")}
    python = sys.executable if place is None else str(place / "bin" / "python")
    path = str(ROOT) if place is not None else f"{ROOT}:{ROOT / 'src'}"
    return [python, "-m", f"bench.peers.drivers.{contestant.driver}"], {"PYTHONPATH": path}

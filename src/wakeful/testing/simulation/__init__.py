"""The simulator: the real service and dispatcher in virtual time, with everything that can go wrong, from a seed.

`replay(seed)` runs the script of a seed, `play(script)` one that was written down, `shrunk(run)` makes one that breaks
a promise as small as it goes.
"""

from wakeful.testing.simulation.checker import Broken
from wakeful.testing.simulation.runner import PromiseBroken, Run, Simulated, play, replay, run_text, shrunk, simulate
from wakeful.testing.simulation.script import Script, generated

__all__ = [
    "Broken",
    "PromiseBroken",
    "Run",
    "Script",
    "Simulated",
    "generated",
    "play",
    "replay",
    "run_text",
    "shrunk",
    "simulate",
]

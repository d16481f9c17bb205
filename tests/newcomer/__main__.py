"""`python -m tests.newcomer DIST`: check the packages there. `--program FILE`: walk the README's path with it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.newcomer.first_minutes import WITHIN, first_minutes
from tests.newcomer.packages import PackageError, check_sdist, check_wheel


def main(args: list[str]) -> str:
    if args[:1] == ["--program"]:
        with tempfile.TemporaryDirectory() as home:
            took = first_minutes(Path(args[1]).absolute(), Path(home))
        return f"served, fired, explained and examined in {took:.0f} s (of {WITHIN:.0f})"
    [wheel], [sdist] = Path(args[0]).glob("*.whl"), Path(args[0]).glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    return f"{wheel.name} and {sdist.name} hold what they should"


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except (PackageError, AssertionError) as error:
        sys.exit(f"error: {error}")

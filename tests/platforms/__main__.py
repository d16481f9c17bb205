"""./scripts/agents [NAME …]: each platform, or those that are named. Exits with 1 if one failed."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Final

from bench.environments import NotInstalled, environment

from tests.platforms.entries import BY_NAME, PLATFORMS, Platform
from tests.platforms.trial import ROOT, Trial

ENVIRONMENTS: Final = ROOT / ".agents"  # git ignores it


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./scripts/agents", description=__doc__)
    parser.add_argument("platform", nargs="*", choices=[*BY_NAME, []], default=[])
    wanted = parser.parse_args(arguments).platform
    failed = [one.name for one in PLATFORMS if (not wanted or one.name in wanted) and not _passes(one)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


def _passes(platform: Platform) -> bool:
    began = time.monotonic()
    try:
        place = None if platform.kind is None else environment(platform.kind, platform.pins, _place(platform))
    except NotInstalled as error:
        print(f"{platform.name}: not installed: {error}", flush=True)
        return False
    installed = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"wakeful-{platform.name}-"))
    try:
        asyncio.run(_checked(platform, Trial(platform.name, folder, place)))
    except Exception:
        traceback.print_exc()
        print(f"{platform.name}: failed", flush=True)
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{platform.name}: ok, {time.monotonic() - installed:.1f} s ({installed - began:.1f} s to install)", flush=True
    )
    return True


async def _checked(platform: Platform, trial: Trial) -> None:
    await platform.check(trial)


def _place(platform: Platform) -> Path:
    return ENVIRONMENTS / platform.name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

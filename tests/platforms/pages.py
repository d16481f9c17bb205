"""The programs of a page in docs/agents/, run as they stand there: one sets an alarm and ends, the other is woken."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import wakeful
from tests.platforms.trial import ROOT, Trial
from tests.remote.world import serving_process, until

PAGES: Final = ROOT / "docs" / "agents"
MODELS: Final = Path(__file__).parent / "models"
SHOWN: Final = "http://127.0.0.1:4747"
RESULT: Final = "3 new grants. You had said: Remind me in 2 seconds to check the grant portal"
_PROGRAM: Final = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


def programs(name: str) -> dict[str, str]:
    """The programs of a page by the names that their first lines give them."""
    return dict(_PROGRAM.findall((PAGES / f"{name}.md").read_text()))


def lines(name: str) -> int:
    """How many lines a user writes, besides the agent itself."""
    return sum(bool(line.strip()) for text in programs(name).values() for line in text.split("\n"))


async def woken_and_resumed(trial: Trial) -> None:
    """The program that is woken is another process: it has nothing but the stored conversation."""
    shutil.copy(MODELS / f"{trial.name}.py", trial.folder / "my_agent.py")
    with serving_process(trial.folder, "--db", str(trial.folder / "w.db")) as server:
        for name, text in programs(trial.name).items():
            (trial.folder / name).write_text(text.replace(SHOWN, server.url))
        trial.run("set.py")
        async with wakeful.open(server.url) as alarms:
            [alarm] = await alarms.find()
            assert (alarm.conversation_id, alarm.wake_message) == ("s-1", "Check the grant portal"), alarm
            with trial.running("woken.py"):
                [fire] = await until(lambda: alarms.fires(alarm.id, status=("completed", "retrying", "failed")))
            assert (fire.status, fire.result) == ("completed", RESULT), fire

"""The vectors and how an answer is judged: facts from public test suites, each row with its source and licence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, parse

VECTORS = Path(__file__).parent / "vectors"
SOME_DAY = "2026-11-15T08:00:00+00:00"
POINTS = {"relative", "dayword", "weekday", "clock", "absolute"}
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (VECTORS / name).read_text(encoding="utf-8").splitlines()]


def ask(text: str, timezone: str, now: datetime, date_order: str = "") -> Understood | None:
    try:
        return parse(text, timezone=timezone, now=now, date_order=date_order)
    except InvalidSchedule:
        return None


def cron_verdicts() -> Iterator[tuple[str, Row]]:
    """Each cron row with "grid", "ok", or how it differs."""
    for row in rows("cron_dev.jsonl"):
        timezone = row.get("tz", "UTC")
        start = datetime.fromisoformat(row.get("start", SOME_DAY)).astimezone(ZoneInfo(timezone))
        understood = ask(row["expr"], timezone, start)
        yield _cron_verdict(row, understood.next(3) if understood else []), row


def _cron_verdict(row: Row, got: list[datetime]) -> str:
    if row["source"] == "dst-grid":
        wanted = [datetime.fromisoformat(text) for text in row["humane_next"]]
        return "grid" if got and all(a == b for a, b in zip(got, wanted, strict=False)) else "grid wrong"
    if "not_next" in row:
        return "ok" if got and got[0] != datetime.fromisoformat(row["not_next"]) else "wrong"
    for source, differs in (("robfig_next", "differs"), ("expected_next", "differs from source")):
        if source in row:
            if not got:
                return "refused" if source == "expected_next" else "differs"
            return "ok" if got[0] == datetime.fromisoformat(row[source]) else differs
    return "accepted" if got else "ok"


def phrase_verdicts(date_order: str = "") -> Iterator[tuple[str, Row]]:
    """Each phrase row with "right", "wrong" or "refused"; nonsense and recurring ones with what became of them."""
    for row in rows("phrases_dev.jsonl"):
        understood = ask(row["phrase"], row["tz"], datetime.fromisoformat(row["now"]), date_order)
        yield _phrase_verdict(row, understood), row


def _phrase_verdict(row: Row, understood: Understood | None) -> str:
    kind = row["category"]
    if kind not in POINTS:
        return f"{kind} refused" if understood is None else f"{kind} as {understood.kind}"
    if understood is None:
        return "refused"
    if understood.fire_at is None:
        return "wrong"
    expected, tz = datetime.fromisoformat(row["expected"]), ZoneInfo(row["tz"])
    if row["grain"] in ("second", "minute", "hour"):
        right = abs((understood.fire_at - expected).total_seconds()) < 1
    else:
        same_day = understood.fire_at.astimezone(tz).date() == expected.astimezone(tz).date()
        right = same_day or understood.fire_at.date() == expected.date()
    return "right" if right else "wrong"

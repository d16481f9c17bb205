"""What the interfaces have in common, and that the documentation knows all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from starlette.routing import Route, WebSocketRoute

from wakeful import errors
from wakeful.cli import main
from wakeful.errors import InvalidRequest, WakefulError
from wakeful.http.security import guard
from wakeful.model.alarm import Fire, Policy
from wakeful.model.limits import BudgetLimits
from wakeful.model.requests import CreateRequest, PolicyRequest
from wakeful.process.application import build
from wakeful.rules.wanted import moment as read_moment
from wakeful.rules.wanted import span
from wakeful.service import views
from wakeful.settings import TABLES, Settings
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm

DOCS = Path(__file__).parents[2] / "docs" / "reference"
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WakefulError)]


def page(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_a_status_at_every_door_and_is_documented(kind: type[WakefulError]) -> None:
    status, exit_code = views.DOORS[kind.code]
    assert f"| `{kind.code}` | {status} | {exit_code} |" in page("errors.md")
    problem = views.problem(kind("it broke", field="f", fix="Mend it."))
    assert msgspec.to_builtins(problem) == {
        "type": f"urn:wakeful:{kind.code}",
        "title": kind.__name__,
        "status": status,
        "code": kind.code,
        "detail": "f: it broke. Mend it.",
        "field": "f",
        "fix": "Mend it.",
    }


def refusals() -> set[tuple[str, str]]:
    """Status and code of every refusal that only HTTP knows, as the interfaces make them."""
    made = re.compile(r'Refusal\(\s*([\w.]+),\s*"(\w+)"')
    return {found for path in Path(guard.__file__).parent.glob("*.py") for found in made.findall(path.read_text())}


@pytest.mark.parametrize(("status", "code"), sorted(refusals()))
def test_every_refusal_that_only_http_knows_is_documented(status: str, code: str) -> None:
    assert f"| `{code}` | {status if status.isdigit() else 'any'} |" in page("errors.md")


@pytest.mark.parametrize("setting", Settings.__struct_fields__)
def test_every_setting_is_documented_with_its_variable(setting: str) -> None:
    assert f"`{setting}`" in page("settings.md")
    if setting not in TABLES:
        assert f"`WAKEFUL_{setting.upper()}`" in page("settings.md")


@pytest.mark.parametrize("limit", BudgetLimits.__struct_fields__)
def test_every_limit_of_a_budget_is_documented_with_its_default(limit: str) -> None:
    owners = (DOCS.parent / "owners.md").read_text()
    [(names, default)] = re.findall(rf"^\| (.*`{limit}`.*?) \| (.*?) \|", owners, re.MULTILINE)
    numbers = dict(zip(re.findall(r"`(\w+)`", names), default.split(", "), strict=False))
    assert numbers.get(limit, default) in (str(getattr(BudgetLimits(), limit)), "no limit")
    assert (getattr(BudgetLimits(), limit) == 0) == (default == "no limit")


def commands(group: click.Group, path: str = "wakeful") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@pytest.mark.parametrize(("name", "command"), list(commands(main)))
def test_every_command_and_option_is_documented(name: str, command: click.Command) -> None:
    section = page("cli.md").partition(f"### `{name}")[2].partition("\n### ")[0]
    assert section
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert f"`{parameter.opts[0]}" in page("cli.md")


async def test_every_route_is_documented(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"), did_auth=True, dashboard=False)) as alarms:
        for route in alarms.asgi().routes:
            if isinstance(route, WebSocketRoute):  # its handshake is a GET, and has a route of its own
                continue
            assert isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}:
                assert f"`{method} {route.path}" in page("http.md")


@pytest.mark.parametrize("field", CreateRequest.__struct_fields__ + PolicyRequest.__struct_fields__)
def test_every_field_of_an_alarm_is_documented(field: str) -> None:
    assert f"`{field}`" in page("http.md")


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
        (1767225600, datetime(2026, 1, 1, tzinfo=UTC)),
        (1767225600.5, datetime(2026, 1, 1, microsecond=500_000, tzinfo=UTC)),
    ],
)
def test_moments_are_read(value: Any, moment: datetime) -> None:
    assert read_moment(value, "f") == moment


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00Z",  # a step back from here, or its local time west of Greenwich, is no date any more
        "9999-12-31T23:59:59Z",
        -62135596800,
        1e300,
        True,
    ],
)
def test_what_is_no_moment_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_moment(value, "since")
    assert refusal.value.field == "since"


@pytest.mark.parametrize("value", [30, 30.0, "30", "30s", timedelta(seconds=30)])
def test_lengths_of_time_are_read(value: Any) -> None:
    assert span(value, "f") == timedelta(seconds=30)


@pytest.mark.parametrize("value", [0, -1, "soon", "", True, float("inf"), float("nan"), 1e300])
def test_what_is_no_length_of_time_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        span(value, "for")
    assert refusal.value.field == "for"


def test_everything_that_is_declared_of_an_alarm_and_a_fire_is_sent() -> None:
    clock = ManualClock()
    names = ("label", "conversation_id", "idempotency_key", "last_error", "paused_reason", "cron_expr", "wall_time")
    texts: Any = dict.fromkeys((*names, "created_by", "created_via", "root_id", "parent_fire"), "x")
    alarm = an_alarm(
        clock,
        **texts,
        policy=Policy(catch_up="skip", manual_of="x"),
        last_fired_at=clock.now(),
        cancelled_at=clock.now(),
        isolated=True,
        generation=2,
    )
    assert set(views.view(alarm)) == set(views.AlarmView.__struct_fields__)
    assert {"id", "manual", *Fire.__struct_fields__} == set(views.FireView.__struct_fields__)

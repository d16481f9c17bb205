"""What other programs write into the columns of `scheduled_tasks`: moments of every kind, words, and no id at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wakeful.errors import InvalidConfig, InvalidSchedule
from wakeful.rules.task import as_number, moment_of
from wakeful.testing import ManualClock, store_of

from .conftest import Gateway

NOON = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
COLUMNS = "id text primary key, owner text, chat_jid text, prompt text, cron text, status text, created_at text"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1795003200", NOON),
        ("1795003200.25", NOON + timedelta(milliseconds=250)),
        ("2461363.0", NOON),
        ("2461363", NOON),
        ("2461363.25", NOON + timedelta(hours=6)),
        ("2461363.00000001", NOON + timedelta(milliseconds=1)),
        ("2026-11-18 12:00:00 +0000 UTC", NOON),
        ("2026-11-18 14:00:00 +0200 CEST", NOON),
        ("2026-11-18 12:00:00.25 +0000 UTC m=+0.004200001", NOON + timedelta(milliseconds=250)),
        ("2026-11-18 17:30:00.123456789 +0530 +0530", NOON + timedelta(milliseconds=123)),
        ("2026-11-18t12:00:00z", NOON),
        ("20261118", NOON - timedelta(hours=12)),
        ("2026-11-18T12:00:00Z", NOON),
    ],
)
def test_every_unambiguous_spelling_of_a_moment_is_understood(text: str, moment: datetime) -> None:
    assert moment_of(text) == moment


@pytest.mark.parametrize(
    "text",
    ["0", "0.0", "-1", "253402300800", "1795003200000", "2026-11-18 12:00:00 UTC", "1e9", "٣", "0001-01-01"],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="is not a moment"):
        moment_of(text)


def test_a_moment_becomes_a_number_for_a_column_of_numbers_and_a_number_stays_as_it_is() -> None:
    assert as_number("2026-11-18T12:00:00.900Z") == "1795003200"
    assert as_number("2461363.25") == "2461363.25"


def number(gateway: Gateway, kind: str) -> str:
    return {"bigint": "bigint", "double": "double precision" if gateway.is_postgres else "real"}[kind]


@pytest.mark.parametrize("kind", ["bigint", "double"])
async def test_a_column_of_numbers_is_read_and_keeps_numbers(gateway: Gateway, kind: str) -> None:
    await gateway.sql(f"create table scheduled_tasks ({COLUMNS}, next_run {number(gateway, kind)})")
    await gateway.connect()
    now = int(gateway.clock.now().timestamp())
    await gateway.add("once", next_run=now + 5)
    await gateway.add("often", next_run=now + 5, cron="60000")
    await gateway.add("found", cron="* * * * *")
    await gateway.pass_time()
    [(found,)] = await gateway.sql("select next_run from scheduled_tasks where id = 'found'")
    assert now < found <= now + 60
    await gateway.pass_time(5)
    assert sorted(await gateway.messages()) == ["do often", "do once"]
    rows = await gateway.sql("select id, status, next_run from scheduled_tasks where id <> 'found' order by id")
    assert rows == [("often", "active", now + 65), ("once", "done", None)]
    await gateway.pass_time(60)
    assert sorted(await gateway.messages()) == ["do found", "do often", "do often", "do once"]
    rows = await gateway.sql("select next_run from scheduled_tasks where id = 'often'")
    assert rows == [(now + 125,)]


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_a_day_number_stays_one_and_go_text_becomes_rfc_3339(gateway: Gateway) -> None:
    await gateway.connect()
    day = 2440587.5 + gateway.clock.now().timestamp() / 86400
    await gateway.sql(
        f"insert into scheduled_tasks (id, chat_jid, prompt, cron, next_run) values "
        f"('day', '1@g.us', 'do day', '86400000', {day!r})"
    )
    text = gateway.clock.now().strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    await gateway.add("go", next_run=text, cron="86400000")
    await gateway.pass_time(0)
    assert sorted(await gateway.messages()) == ["do day", "do go"]
    [(kind, next_day)] = await gateway.sql("select typeof(next_run), next_run from scheduled_tasks where id = 'day'")
    assert (kind, round(next_day - day, 6)) == ("real", 1)
    assert await gateway.sql("select next_run from scheduled_tasks where id = 'go'") == [(gateway.at(86400),)]


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
@pytest.mark.parametrize("kind", ["date", "real", "interval", "boolean"])
async def test_on_postgres_a_next_run_that_holds_no_moment_is_refused(gateway: Gateway, kind: str) -> None:
    await gateway.sql(f"create table scheduled_tasks ({COLUMNS}, next_run {kind})")
    with pytest.raises(InvalidConfig, match="next_run of scheduled_tasks is of type"):
        await gateway.connect()


@pytest.mark.parametrize("status", ["ACTIVE", "Active", " active", "Paused"])
async def test_a_status_in_other_letters_does_not_run_and_says_so_once(
    gateway: Gateway, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.connect()
    await gateway.add("loud", next_run=gateway.at(-1), status=status)
    await gateway.pass_time(1)
    await gateway.sql("update scheduled_tasks set owner = owner")
    await gateway.pass_time(1)
    assert await gateway.messages() == []
    note = f"status: it is {status!r}, not {status.strip().lower()!r}"
    assert await gateway.sql("select status, error from scheduled_tasks") == [(status, note)]
    assert (await store_of(gateway.wakeful).tasks.notes())["loud"] == note
    assert [r.message for r in caplog.records if "loud" in r.message] == [f"task loud does not run: {note}"]
    await gateway.sql("update scheduled_tasks set status = 'active'")
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do loud"]


async def test_a_broken_row_is_told_of_once_however_often_it_is_touched(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.connect()
    await gateway.add("bad", cron="61 * * * *")
    await gateway.pass_time(1)
    for _ in range(3):
        await gateway.sql("update scheduled_tasks set status = 'active' where id = 'bad'")
        await gateway.pass_time(1)
        await gateway.connect()
        await gateway.pass_time(1)
    said = [record.message for record in caplog.records if "task bad" in record.message]
    assert said == ["task bad does not run: cron: minute: 61 is out of range."]
    await gateway.sql("update scheduled_tasks set cron = '62 * * * *', status = 'active' where id = 'bad'")
    await gateway.pass_time(1)
    said = [record.message for record in caplog.records if "task bad" in record.message]
    assert said[1:] == ["task bad does not run: cron: minute: 62 is out of range."]


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_rows_without_a_usable_id_are_told_of_in_the_log_and_by_the_command(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.connect()
    for id in ("null", "null", "x'41'"):
        await gateway.sql(
            f"insert into scheduled_tasks (id, chat_jid, prompt, next_run) values "
            f"({id}, '1@g.us', 'x', '{gateway.at(-1)}')"
        )
    await gateway.connect()
    await gateway.pass_time(1)
    await gateway.pass_time(20)
    told = {"NULL": "id: it is NULL, so the row never runs", "x'41'": "id: it is not text"}
    assert await store_of(gateway.wakeful).tasks.notes() == told
    lines = [record.message for record in caplog.records if "does not run" in record.message]
    assert sorted(lines) == [f"task {id} does not run: {note}" for id, note in told.items()]


async def test_a_column_context_mode_counts_for_the_next_fire(gateway: Gateway, clock: ManualClock) -> None:
    """Though wakeful has known the table without it, and looks at its shape every ten seconds only."""
    await gateway.sql(f"create table scheduled_tasks ({COLUMNS}, next_run text)")
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(5))
    await gateway.add("t2", next_run=gateway.at(5))
    await gateway.pass_time(1)
    await gateway.sql("alter table scheduled_tasks add column context_mode text not null default 'group'")
    await gateway.sql("update scheduled_tasks set context_mode = 'isolated' where id = 't1'")
    await gateway.pass_time(4)
    rows = await gateway.sql("select content, sender from messages order by content")
    assert rows == [("do t1", "scheduler-isolated:t1"), ("do t2", "scheduler")]

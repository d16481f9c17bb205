"""How many wakes, and what cost, an owner, an alarm and a chain may have; 0: no limit. Data only."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

EVERYONE: Final = "*"  # in place of an owner's name; in a pattern for chats, any text


def _about(text: str) -> Meta:
    return Meta(description=text)


class OwnerLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[budget.owners.NAME]`: what holds for one owner instead of what holds for everyone."""

    owner_wakes_per_hour: int | None = None
    owner_wakes_per_day: int | None = None
    owner_cost_per_day: float | None = None
    alarm_wakes_per_hour: int | None = None
    alarm_wakes_per_day: int | None = None
    alarm_cost_per_day: float | None = None
    chain_wakes_per_hour: int | None = None
    chain_wakes_per_day: int | None = None
    chain_cost_per_day: float | None = None
    rewakes_per_hour: int | None = None
    rewakes_per_day: int | None = None
    agent_wakes_per_hour: int | None = None
    agent_wakes_per_day: int | None = None


class BudgetLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits that hold for an owner, each of its alarms and each of its chains."""

    owner_wakes_per_hour: Annotated[int, _about("Wakes of one owner in an hour.")] = 0
    owner_wakes_per_day: Annotated[int, _about("Wakes of one owner in a day.")] = 0
    owner_cost_per_day: Annotated[float, _about("Cost that one owner's reports may name in a day.")] = 0.0
    alarm_wakes_per_hour: Annotated[int, _about("Wakes of one alarm in an hour.")] = 0
    alarm_wakes_per_day: Annotated[int, _about("Wakes of one alarm in a day.")] = 0
    alarm_cost_per_day: Annotated[float, _about("Cost that reports on one alarm may name in a day.")] = 0.0
    chain_wakes_per_hour: Annotated[
        int, _about("Wakes in an hour of all alarms that were set out of wakes and began with the same alarm.")
    ] = 120
    chain_wakes_per_day: Annotated[int, _about("The same in a day.")] = 500
    chain_cost_per_day: Annotated[float, _about("Cost that reports on such alarms may name in a day.")] = 0.0
    rewakes_per_hour: Annotated[
        int, _about("How often one alarm may wake again in an hour: snoozed, or tried again after it had arrived.")
    ] = 60
    rewakes_per_day: Annotated[int, _about("The same in a day.")] = 300
    agent_wakes_per_hour: Annotated[
        int, _about("Wakes in an hour of all one-shots that one owner's agents have set over MCP, outside of chains.")
    ] = 300
    agent_wakes_per_day: Annotated[int, _about("The same in a day.")] = 1500

"""Both stores, each empty and on a clock that is moved by hand."""

from tests.store.conftest import clock, outbox, place, store

__all__ = ["clock", "outbox", "place", "store"]

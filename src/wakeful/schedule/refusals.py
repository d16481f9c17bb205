"""Why a phrase was not understood, before the reader of the refusal is told what would work."""

from __future__ import annotations


class PhraseRefused(Exception):
    """What was wrong with a phrase, and phrases that say it properly. Becomes an InvalidSchedule in parse()."""

    def __init__(self, why: str, *instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead


class RefusedRhythm(PhraseRefused):
    """The same for something that recurs: what is suggested instead recurs too, and as often."""

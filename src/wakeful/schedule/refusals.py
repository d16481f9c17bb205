"""Why a phrase was not understood, before the reader of the refusal is told what would work."""

from __future__ import annotations

from typing import Self


class PhraseRefused(Exception):
    """What was wrong with a phrase, and phrases that say it properly. Becomes an InvalidSchedule in parse()."""

    all_or_none = False  # its suggestions exclude each other: one of them alone would be a guess

    def __init__(self, why: str, *instead: str) -> None:
        super().__init__(why)
        self.why = why
        self.instead = instead

    def suggesting(self, *instead: str) -> Self:
        """The same with other suggestions, as many."""
        other = type(self)(self.why, *instead)
        other.all_or_none = self.all_or_none
        return other


class Contradiction(PhraseRefused):
    """Words that exclude each other, or that have several meanings: all suggestions are offered, or none."""

    all_or_none = True


class RefusedRhythm(PhraseRefused):
    """The same for something that recurs: what is suggested instead recurs too, and as often."""

"""Regular expressions that are compiled when first asked: a phrase needs few of them, and compiling is slow."""

from __future__ import annotations

import re


class LazyPattern:
    """A pattern that costs nothing until it is used."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.text)
        return self._compiled

    def match(self, text: str, position: int = 0) -> re.Match[str] | None:
        return (self._compiled or self.compiled).match(text, position)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled).fullmatch(text)

    def search(self, text: str, position: int = 0) -> re.Match[str] | None:
        return (self._compiled or self.compiled).search(text, position)

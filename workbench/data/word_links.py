"""Links between the words of a text and those of its translation, some sure and some only possible."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.errors import DataError

__all__ = ["Link", "WordLinks"]

Link = tuple[int, int]
"""Number of a source word and of a target word, both from 0."""

_LINK = re.compile(r"(\d+)([-?])(\d+)")


@dataclass(frozen=True)
class WordLinks:
    """The alignment of a pair: ``sure`` links, and ``possible`` ones, which include the sure (Och & Ney 2003).

    Example:
        ```python
        from workbench.data.word_links import WordLinks

        links = WordLinks.parse("0-1 1-0 1?2")
        print(sorted(links.sure), sorted(links.possible), links)
        ```
    """

    sure: frozenset[Link]
    possible: frozenset[Link]

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.sure | self.possible)

    @classmethod
    def parse(cls, text: str, where: str = "alignment") -> WordLinks:
        """Read ``0-1 1-0 1?2``: source word, ``-`` (sure) or ``?`` (possible), target word, numbered from 0.

        Raises :class:`~workbench.errors.DataError` for anything else, naming ``where``.
        """
        links: dict[str, set[Link]] = {"-": set(), "?": set()}
        for word in text.split():
            found = _LINK.fullmatch(word)
            if found is None:
                raise DataError(
                    f"{where}: {word!r} is no link; write source-target for a sure one and source?target for a "
                    "possible one, numbered from 0, such as 0-1"
                )
            links[found[2]].add((int(found[1]), int(found[3])))
        return cls(frozenset(links["-"]), frozenset(links["?"]))

    def check(self, source: int, target: int, where: str) -> None:
        """Raise :class:`~workbench.errors.DataError` for a link beyond ``source`` and ``target`` words."""
        for first, second in sorted(self.possible):
            if first >= source or second >= target:
                raise DataError(
                    f"{where}: link {first}-{second} is beyond the pair, which has {source} source and {target} "
                    "target words separated by spaces, numbered from 0"
                )

    def __str__(self) -> str:
        marks = {link: "-" if link in self.sure else "?" for link in self.possible}
        return " ".join(f"{s}{marks[s, t]}{t}" for s, t in sorted(marks, key=lambda link: link[::-1]))

"""placeholder"""
from collections.abc import Iterator
from ..model import Case
from ..registry import family

@family
def generate() -> Iterator[Case]:
    return iter(())

"""Ctrl-C at one chosen place of the code, so that a test can try them all."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


class Interrupt:
    """Raises KeyboardInterrupt at the `number`th place in `files` where Python looks for signals, while it is there."""

    def __init__(self, number: int, files: tuple[str, ...], events: tuple[str, ...] = ("call", "c_return")) -> None:
        self.left, self.files, self.events = number, files, events

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        if event in self.events and frame.f_code.co_filename.endswith(self.files):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def __enter__(self) -> Interrupt:
        sys.setprofile(self.look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

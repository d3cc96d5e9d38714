"""Ways to issue an operation and to wait for it. To add one, add a function to MODES."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from .context import Context
from .model import CheckFailedError, Verdict

Issue = Callable[[bool], Any]
"""Issues the operation; the argument is async_op; gives the handle."""


def _handle(issue: Issue) -> Any:
    work = issue(True)
    if work is None:
        raise CheckFailedError(Verdict.ERROR, "async_op=True gave no handle")
    return work


def sync(issue: Issue, context: Context) -> None:
    issue(False)


def wait(issue: Issue, context: Context) -> None:
    _handle(issue).wait()


def wait_twice(issue: Issue, context: Context) -> None:
    work = _handle(issue)
    work.wait()
    work.wait()


def wait_timeout(issue: Issue, context: Context) -> None:
    _handle(issue).wait(timedelta(seconds=context.op_timeout_s))


def wait_thread(issue: Issue, context: Context) -> None:
    """Another thread than the one that issued the operation waits for it."""
    work = _handle(issue)
    errors: list[Exception] = []

    def run() -> None:
        try:
            work.wait()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def poll(issue: Issue, context: Context) -> None:
    """``is_completed`` alone must become true, without a wait."""
    work = _handle(issue)
    limit = time.monotonic() + min(1.0, context.op_timeout_s / 2)
    while not work.is_completed():
        if time.monotonic() > limit:
            work.wait()
            raise CheckFailedError(Verdict.ERROR, "is_completed() stayed false by polling; wait() returned at once")
        time.sleep(0.0005)


def future(issue: Issue, context: Context) -> None:
    _handle(issue).get_future().wait()


def future_then(issue: Issue, context: Context) -> None:
    """Two chained callbacks run once each, after the data is there."""
    seen: list[int] = []

    def first(done: Any) -> int:
        done.value()
        seen.append(1)
        return 5

    def second(done: Any) -> int:
        seen.append(int(done.value()))
        return 6

    work = _handle(issue)
    result = work.get_future().then(first).then(second).wait()
    if result != 6 or seen != [1, 5]:
        raise CheckFailedError(Verdict.WRONG_RESULT, f"future callbacks gave {result} and ran as {seen}")


def freed_input(issue: Issue, context: Context) -> None:
    """The caller's references go away right after the call, and the memory allocator is kept busy."""
    work = _handle(issue)
    context.release_inputs()
    gc.collect()
    junk = [torch.full((4099,), 7.0) for _ in range(8)]
    work.wait()
    del junk


def dropped(issue: Issue, context: Context) -> None:
    """Nobody keeps the handle; the body then waits until the data is there."""
    _handle(issue)
    context.settle = True


def inference(issue: Issue, context: Context) -> None:
    with torch.inference_mode():
        issue(False)


MODES: dict[str, Callable[[Issue, Context], None]] = {
    function.__name__: function
    for function in (
        sync,
        wait,
        wait_twice,
        wait_timeout,
        wait_thread,
        poll,
        future,
        future_then,
        freed_input,
        dropped,
        inference,
    )
}

"""CUSTOMCCL_PROGRESS_THREAD=0: nothing moves by itself, and still nobody waits without end."""

from harness.programs import run_ranks


def test_futures_are_over_when_they_are_asked_for_and_ddp_trains():
    first, second = run_ranks("without_progress_thread.py", 2)
    assert (first.exit_code, second.exit_code) == (0, 0), f"{first.output}\n{second.output}"
    assert "rank 0 heard: " in first.output and "the timeout passed" in first.output, first.output

"""What the entry points call: makes torch know the name "customccl" without loading any C++.

`import torch` calls autoload() in every process of the environment, so it must not raise (torch would refuse to import)
and must cost next to nothing; register() is what torch 2.14 and later call when the name is first used.
"""

import atexit
import functools
import sys
from typing import Any

NAME = "customccl"


def autoload() -> None:
    """Entry point of group "torch.backends". Never raises: at worst warns that the backend is not there."""
    try:
        register()
    except Exception as error:
        _warn(error)


def register() -> None:
    """Entry point of group "torch.distributed.backends". Registers the lazy creators; a second call changes nothing."""
    import torch.distributed as dist

    if not dist.is_available() or NAME.upper() in dist.Backend._plugins:
        return
    # A list, not "cpu": torch up to 2.13 iterates over a string letter by letter.
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    await_end_of_python()
    _mend_torch()
    _register_with_dist2()


@functools.cache
def await_end_of_python() -> None:
    """Once per process: as soon as the name is registered, with the shim where it never is (no autoload of torch's)."""
    atexit.register(_end)


def _end() -> None:
    """Runs after what is registered from now on: until then callbacks run, and futures complete."""
    for name in list(sys.modules):
        if name.startswith("torch_customccl._shim_"):
            sys.modules[name].python_ends()


def _create(group: Any, options: Any) -> Any:
    from torch_customccl.backend import create

    return create(group, options)


def _create_group(*args: Any, **kwargs: Any) -> Any:
    from torch_customccl.backend import create_group

    return create_group(*args, **kwargs)


def _mend_torch() -> None:
    """What torch decides by the names of its own backends."""
    from torch_customccl import (
        _backend_name,
        _coalescing,
        _default_backend,
        _flight_recorder,
        _monitored_barrier,
        _pg_timeout,
    )

    for mended in (_default_backend, _monitored_barrier, _coalescing, _flight_recorder, _pg_timeout, _backend_name):
        mended.install()


def _register_with_dist2() -> None:
    try:
        from torch.distributed import _dist2
    except ImportError:  # experimental in torch: may move or go
        return
    if NAME not in _dist2._BACKENDS:
        _dist2.register_backend(NAME, _create_group)


def _warn(error: Exception) -> None:
    try:
        import warnings

        warnings.warn(f"torch_customccl could not register its backend: {type(error).__name__}: {error}", stacklevel=3)
    except Exception:  # warnings turned into errors, or no interpreter left to warn
        return

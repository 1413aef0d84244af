"""Run a function in a forked process: quick, because torch is imported already, and free to be killed."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable

import torch
from tqdm import tqdm


def start(function: Callable[[], object], environment: dict[str, str] | None = None) -> int:
    """Fork; return the process id. The child's exit status is 0 if the function returned."""
    if torch.get_num_threads() > 1:
        raise RuntimeError(
            "a child of a process with OpenMP threads hangs: set OMP_NUM_THREADS=1 before torch"
        )
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.environ.update(environment or {})
        # tqdm's own lock is shared with the parent: killed while it holds it, a child would lock out all others.
        tqdm.set_lock(threading.RLock())
        forget_accelerate()
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(child: int) -> int:
    """Return the exit status of a process; minus the signal if one killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(function: Callable[[], object]) -> int:
    """Run a function in a process of its own; return how it ended, as `wait` does."""
    return wait(start(function))


def together(function: Callable[[], object], processes: int) -> list[int]:
    """Run a function in several processes that torch takes for one run; return how each ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children = [
        start(function, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"})
        for rank in range(processes)
    ]
    return [wait(child) for child in children]


def forget_accelerate() -> None:
    """Accelerate keeps the first precision of a process; a test wants its own."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._shared_state.clear()


def die() -> None:
    """End this process at once, as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(call: int, function: Callable, *, after: bool = False) -> Callable:
    """Wrap a function: its call number `call` (from 1) ends the process, before or after its work."""
    calls = 0

    def wrapped(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call and not after:
            die()
        result = function(*args, **kwargs)
        if calls == call:
            die()
        return result

    return wrapped

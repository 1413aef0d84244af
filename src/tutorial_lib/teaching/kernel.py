"""The kernel in which a submission runs: limits first, then ipykernel. Started by sandbox.py, never imported.

Output beyond a limit is dropped here, in the kernel, before it can fill the
memory of whoever collects it. Code that is out to do harm can undo this; the
collector's own memory limit is for that case.
"""

from __future__ import annotations

import os
import resource
import sys

OUTPUT_PER_CELL = 200_000  # characters
ERROR_TEXT = 10_000
LIMITS = {
    "AS": int(os.environ.get("GRADER_MEMORY", 4_000_000_000)),
    "CPU": int(os.environ.get("GRADER_CPU", 300)),
    "FSIZE": 100_000_000,
    "NPROC": 128,
    "NOFILE": 256,
    "CORE": 0,
}


def set_limits() -> None:
    """Hard limits: nothing that runs later in this process or its children can raise them."""
    for name, value in LIMITS.items():
        if name == "NPROC" and os.environ.get("GRADER_SANDBOX") != "1":
            continue  # outside a sandbox it would count everything that the user runs
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            _, hard = resource.getrlimit(number)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))


def limit_output() -> None:
    from ipykernel.iostream import OutStream
    from IPython.core.getipython import get_ipython
    from jupyter_client.session import Session

    write, send, used = OutStream.write, Session.send, {}

    def room(size: int) -> bool:
        shell = get_ipython()
        cell = shell.execution_count if shell else 0
        used[cell] = used.get(cell, 0) + size
        return used[cell] <= OUTPUT_PER_CELL

    def limited_write(self, string):
        if not isinstance(string, str) or room(len(string)):
            return write(self, string)
        return len(string)

    def limited_send(self, stream, msg_or_type, content=None, *args, **kwargs):
        kind = msg_or_type if isinstance(msg_or_type, str) else msg_or_type.get("msg_type", "")
        if kind in ("display_data", "update_display_data", "execute_result") or kind.startswith("comm_"):
            body = content if content is not None else getattr(msg_or_type, "get", dict)("content", {})
            if not room(sum(len(str(value)) for value in (body or {}).get("data", {}).values())):
                return None
        if kind == "error" and content:
            content = {
                **content,
                "evalue": content.get("evalue", "")[:ERROR_TEXT],
                "traceback": [line[:ERROR_TEXT] for line in content.get("traceback", [])[:20]],
            }
        return send(self, stream, msg_or_type, content, *args, **kwargs)

    OutStream.write, Session.send = limited_write, limited_send


def main() -> None:
    if os.environ.get("GRADER_SANDBOX") != "1":  # a sandbox sees to it itself
        from tutorial_lib.teaching.engine import die_with_parent

        die_with_parent()
    set_limits()
    limit_output()
    # Loaded before the kernel answers: the seconds of a cell are the student's own.
    import torch  # noqa: F401
    from ipykernel import kernelapp

    # exit() would end the kernel and with it all other answers; this one ends the cell.
    lines = "--IPKernelApp.exec_lines=['from sys import exit', 'from sys import exit as quit']"
    sys.argv = [sys.argv[0], "-f", sys.argv[1], "--HistoryManager.hist_file=:memory:", lines]
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()

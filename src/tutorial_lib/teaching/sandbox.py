"""Where a submission runs: a kernel behind bubblewrap, or, only when asked for by name, without it.

In the sandbox there is no network, no other process, no file of the machine
but its programs and this library, read-only; another user; and a private
folder in memory that is gone afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import tutorial_lib

NOBODY = 65534
SCRATCH = 200_000_000  # bytes that a submission may write in all


def missing() -> str | None:
    """What stands against a sandbox on this machine: None, or a sentence that says what to do.

    For root it also finds out whether a kernel can run as nobody from the start: the limit of
    processes does not hold for root, not even for a root that has another name inside.
    """
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        return (
            "nothing was graded, because bubblewrap is not installed and submissions are programs by strangers: "
            "install it (Linux only; Debian, Ubuntu: sudo apt install bubblewrap), or say --unsafe to run them "
            "without any protection"
        )
    choices = ["1", "0"] if os.getuid() == 0 and shutil.which("setpriv") else ["0"]
    for choice in choices:
        os.environ["GRADER_AS_NOBODY"] = choice
        with tempfile.TemporaryDirectory() as folder:
            give_away(Path(folder))
            command = [*command_line(Path(folder)), sys.executable, "-c", "import torch; print('inside')"]
            tried = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if tried.stdout.strip() == "inside":
            return None
    return (
        f"nothing was graded, because bubblewrap does not work here{forbidden()}: "
        f"{tried.stderr.strip()[-300:] or tried.returncode}"
    )


def forbidden() -> str:
    """How to lift the usual ban, where the machine has it (Ubuntu 24.04 and later)."""
    switch = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if switch.exists() and switch.read_text().strip() == "1":
        return " (until you say: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    return ""


def as_nobody() -> bool:
    return os.environ.get("GRADER_AS_NOBODY") == "1"


def give_away(folder: Path) -> None:
    """Let the kernel's user read and write the folder that both sides see."""
    if as_nobody():
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def command_line(runtime: Path) -> list[str]:
    """bubblewrap with everything but the program that it runs.

    Args:
        runtime: the one folder that both sides see; the kernel's sockets lie there.
    """
    package = Path(tutorial_lib.__file__).resolve().parent
    shown = ["/usr", sys.prefix, sys.base_prefix, *site.getsitepackages(), *foreign_packages(), str(package)]
    line = []
    if as_nobody():
        line = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    line += [
        "bwrap",
        "--unshare-all",
        "--new-session",
        "--die-with-parent",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/tmp", "/box", "/dev/shm"):
        line += ["--size", str(SCRATCH), "--tmpfs", folder]
    line += ["--dir", "/tmp/home"]
    for folder in dict.fromkeys(shown):
        line += ["--ro-bind-try", folder, folder]
    for folder in ("/lib", "/lib64", "/bin", "/sbin"):
        if os.path.islink(folder):
            line += ["--symlink", os.readlink(folder), folder]
        else:
            line += ["--ro-bind-try", folder, folder]
    for file in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime"):
        line += ["--ro-bind-try", file, file]
    line += ["--bind", str(runtime), str(runtime), "--remount-ro", "/dev", "--chdir", "/box"]
    if os.getuid() == 0 and not as_nobody():
        line += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    inside = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(package.parent),
        "HOME": "/tmp/home",
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "GRADER_SANDBOX": "1",
        "PIP_NO_INDEX": "1",
        **{name: os.environ[name] for name in ("GRADER_SEED",) if name in os.environ},
        **quiet(),
    }
    for name, value in inside.items():
        line += ["--setenv", name, value]
    return line


def foreign_packages() -> list[str]:
    """Folders of packages outside this environment that it uses all the same."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def quiet() -> dict[str, str]:
    """One thread each, no download, no window."""
    return {
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "HF_HUB_OFFLINE": "1",
        "KERAS_BACKEND": "torch",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def install_kernel(folder: Path, *, unsafe: bool) -> dict[str, str]:
    """Write a kernel named python3 that takes the place of the machine's own; the environment that finds it."""
    target = folder / "kernels" / "python3"
    target.mkdir(parents=True, exist_ok=True)
    module = "tutorial_lib.teaching.kernel" if unsafe else "tutorial_lib.teaching.sandbox"
    spec = {
        "argv": [sys.executable, "-m", module, "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
        "interrupt_mode": "message",  # a signal would not pass the sandbox
    }
    (target / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return {"JUPYTER_PATH": str(folder)}


def main() -> None:
    """Replace this process by the sandboxed kernel; the argument is the connection file."""
    connection = Path(sys.argv[1])
    give_away(connection.parent)
    program = [sys.executable, "-m", "tutorial_lib.teaching.kernel", str(connection)]
    line = [*command_line(connection.parent), *program]
    os.execvp(line[0], line)


if __name__ == "__main__":
    main()

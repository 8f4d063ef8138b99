"""Programs in forks that are killed, or meet a full disk, at a moment that a test chooses.

What is slow to import is imported once, by a server: every job is a fork of it. The server reads
jobs as JSON lines and answers each with an exit code, what the job wrote to stderr, and how many
file operations it did.
"""

import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import time
import traceback

OPERATIONS = ("replace", "rename", "fsync", "unlink")


class ForkServer:
    """The client of a module that calls `serve`.

    Args:
        module: its name.
        backend: Keras's backend.
    """

    def __init__(self, module, backend):
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, **job):
        """Exit code (negative where it was killed), stderr and file operations of a job."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def serve(main):
    """Run `main(**job)`, which returns an exit code, in a fork for each job on stdin.

    What a job has besides: `kill`, a number of seconds after which to kill it, or the number of the
    file operation at which it kills itself; `fill`, that at which the disk gets full.
    """
    for line in sys.stdin:
        print(json.dumps(_run_in_fork(main, **json.loads(line))), flush=True)


def _run_in_fork(main, kill=None, fill=None, **job):
    ours, theirs = os.pipe()  # not a file: a full disk must not keep it from telling so
    operations = mmap.mmap(-1, 8)  # shared with the child
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the answers' place
        happenings = {fill: fill_the_disk}
        if isinstance(kill, int):
            happenings[kill] = lambda: os.kill(os.getpid(), signal.SIGKILL)
        at_operations(happenings, operations)
        code = 1
        try:
            code = main(**job)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(theirs)
    if isinstance(kill, float):
        time.sleep(kill)
        os.kill(child, signal.SIGKILL)
    with open(ours, errors="replace") as errors:
        text = errors.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, text, int.from_bytes(operations[:], "little")


def at_operations(happenings, counter=None):
    """Call functions before the n-th rename, sync or removal of a file in this process.

    Args:
        happenings: dictionary of n, from 1, to a function.
        counter: 8 bytes that are set to the number of operations so far, or None.
    """
    count = 0

    def counted(function):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if counter is not None:
                counter[:] = count.to_bytes(8, "little")
            if count in happenings:
                happenings[count]()
            return function(*arguments, **options)

        return call

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))


def fill_the_disk(left=0):
    """From now on no file of this process may become larger than a few bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, left))

"""Calls in parallel processes, of this machine or of a Ray cluster.

Calls do not depend on each other, so that their results are the same wherever they are made. A
process that waits for calls and has lost its parent, by a kill, would wait for ever: those of this
machine end with the process that started them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice, takewhile
from multiprocessing import active_children
from typing import Any, NamedTuple, TypeAlias, cast

from afterstate.agents.config import Backend
from afterstate.envs.messages import needs
from afterstate.envs.signals import blocked, delayed

SECONDS = 1.0
"""Time from one look at the parent to the next."""

RETRIES = 10
"""Times that a cluster makes a call again whose process has died."""

Call: TypeAlias = Callable[[], Any]
"""A function with its arguments, as of `functools.partial`; other processes must be able to import
the function."""


class Workers(NamedTuple):
    """Processes that make calls.

    Attributes:
        jobs: calls made at a time; None: one on this machine, or one on each processor of a
            cluster.
        backend: `"local"` for processes of this machine, by joblib, or `"ray"` for those of the Ray
            cluster that this machine belongs to. Without one, Ray starts on this machine alone.
        threads: processors that a call takes on a cluster.
        memory: bytes that a call takes on a cluster; 0: as Ray decides.
        gpus: GPUs that a call takes on a cluster.
    """

    jobs: int | None = 1
    backend: Backend = "local"
    threads: int = 1
    memory: int = 0
    gpus: int = 0

    def results(self, calls: Iterable[Call]) -> Generator[Any, None, None]:
        """Yield the results of calls in their order.

        Calls may be without end: one is read whenever a process is free.

        Raises:
            ImportError: joblib or Ray is not installed.
            OSError: a process was killed; one of a cluster, again and again.
            ValueError: no machine of the cluster has the processors, memory and GPUs of a call.
        """
        yield from self._made(calls, is_ordered=True)

    def as_they_end(
        self, calls: Iterable[Call], *, save: bool = False
    ) -> Generator[Any, None, None]:
        """Yield the results of calls, those first that end first; errors are those of `results`.

        Args:
            calls: the calls.
            save: True if calls save what they have when Ctrl-C interrupts them. After Ctrl-C or
                SIGTERM the processes of this machine are then waited for, unless it comes again.
        """
        if save and self.backend == "local" and (self.jobs or 1) > 1:
            yield from _saved(calls, self.jobs or 1)
        else:
            yield from self._made(calls, is_ordered=False)

    def _made(self, calls: Iterable[Call], is_ordered: bool) -> Iterator[Any]:
        """Return the results of calls in their order, or as they end."""
        if self.backend == "ray":
            return _on_ray(iter(calls), self, is_ordered)
        return _here(calls, self.jobs or 1, is_ordered)


ALONE = Workers()
"""This process."""


# This machine


def _here(calls: Iterable[Call], jobs: int, is_ordered: bool) -> Iterator[Any]:
    """Yield the results of calls by joblib, which makes them in this process if `jobs` is 1."""
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    kind = "generator" if is_ordered else "generator_unordered"
    options: Any = {"return_as": kind, "pre_dispatch": jobs, "batch_size": 1}
    options |= {"initializer": _watch, "initargs": (os.getpid(),)}  # of each process
    with contextlib.ExitStack() as stack:
        with _starting() if jobs > 1 else contextlib.nullcontext():
            made = joblib.Parallel(jobs, **options)(joblib.delayed(each)() for each in calls)
            stack.callback(_close, made)
        try:
            for result in made:  # noqa: UP028 - `yield from` would close it with a warning
                yield result
        except TerminatedWorkerError as error:
            message = "a process that makes calls was killed, such as for lack of memory"
            raise OSError(errno.EIO, message) from error


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Let joblib start processes in the block, which block Ctrl-C until `_watch`.

    They would print where they are. SIGTERM waits here until all are known: see
    `_counted_interrupts`.
    """
    from joblib.externals.loky.backend import resource_tracker

    resource_tracker.ensure_running()  # older versions unblock signals when they start it
    with blocked(signal.SIGINT), delayed(signal.SIGTERM):
        yield


def _close(made: Any) -> None:
    """Cancel the calls of joblib that are left, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have been cancelled")
        made.close()


def _saved(calls: Iterable[Call], jobs: int) -> Iterator[Any]:
    """Yield the results of calls in processes, which may save when Ctrl-C interrupts them.

    Ctrl-C reaches the processes, too, and SIGTERM is passed on. Here both raise KeyboardInterrupt
    when all have ended.
    """
    messages: list[str] = []
    with _counted_interrupts() as interrupts:
        begun = takewhile(lambda _: not interrupts, (partial(_try, each) for each in calls))
        for result in _here(begun, jobs, is_ordered=False):
            if isinstance(result, _Interrupted):
                messages.append(result.message)
            else:
                yield result
    if interrupts or messages:
        _end_processes()
        raise KeyboardInterrupt("; ".join(filter(None, messages)))


def _end_processes() -> None:
    """End the processes of joblib, which would begin no call any more."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


class _Interrupted(NamedTuple):
    """The result of a call that was interrupted."""

    message: str


_is_interrupted = False
"""True in a process that Ctrl-C has reached."""
_is_calling = False
"""True while a process makes a call that may save."""


def _interrupt(number: int, frame: Any) -> None:
    """Interrupt the call that this process makes; if it makes none, it begins none any more."""
    global _is_interrupted
    _is_interrupted = True
    if _is_calling:
        raise KeyboardInterrupt


def _try(call: Call) -> Any:
    """Make a call that may be interrupted, and may save."""
    global _is_calling
    try:
        _is_calling = True
        try:
            return _Interrupted("") if _is_interrupted else call()
        finally:
            _is_calling = False
    except KeyboardInterrupt as interrupt:
        _is_calling = False  # interrupted again before it was
        return _Interrupted(str(interrupt))


@contextlib.contextmanager
def _counted_interrupts() -> Iterator[list[int]]:
    """Yield a list to which the first Ctrl-C or SIGTERM is added; the next one acts as before.

    SIGTERM interrupts the processes, which do not receive it, as Ctrl-C does.

    Only the main thread receives signals: in other threads the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, _: Any) -> None:
        received.append(number)
        restore()
        print("interrupted: other processes are saving", file=sys.stderr)
        if number == signal.SIGTERM:
            for process in active_children():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.kill(cast(int, process.pid), signal.SIGINT)

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        restore()


def _watch(starter: int) -> None:
    """End this process with the one that has started it; let Ctrl-C interrupt its calls that save.

    The process that has started it ends the others.
    """
    signal.signal(signal.SIGINT, _interrupt)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with, args=(starter,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when it has another parent than this one."""
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)


# A cluster


def _on_ray(calls: Iterator[Call], workers: Workers, is_ordered: bool) -> Iterator[Any]:
    """Yield the results of calls by a Ray cluster; the calls that are left end with the caller."""
    ray = _connected()
    free = _free_for(workers, ray.nodes())
    limit = workers.jobs or free
    needed = {"num_cpus": workers.threads, "num_gpus": workers.gpus}
    needed |= {"memory": workers.memory} if workers.memory else {}
    task = ray.remote(**needed, max_retries=RETRIES)(_call_in)
    numbered, next_number = enumerate(calls), 0
    running: dict[Any, int] = {}
    ended: dict[int, Any] = {}
    try:
        while True:
            n_free = min(limit - len(running), 2 * limit - len(running) - len(ended))
            for number, call in islice(numbered, n_free):
                running[task.remote(call, os.getcwd())] = number
            if not running and not ended:
                return
            if running:
                first = ray.wait(list(running))[0][0]
                ended[running.pop(first)] = first
            while (number := next_number if is_ordered else min(ended, default=-1)) in ended:
                next_number += 1
                yield _result(ray, ended.pop(number))
    finally:
        for each in running:
            ray.cancel(each, force=True)


def _connected() -> Any:
    """Return the package Ray, which belongs to a cluster now."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ImportError(needs("a Ray cluster", "ray")) from error
    ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False)
    return ray


def _free_for(workers: Workers, nodes: Iterable[dict[str, Any]]) -> int:
    """Return the number of calls that the machines of a cluster can make at a time.

    Raises:
        ValueError: it is 0, so that a call would wait for ever.
    """
    needed = {"CPU": workers.threads, "GPU": workers.gpus, "memory": workers.memory}
    limit = sum(
        min(int(node["Resources"].get(name, 0) // n) for name, n in needed.items() if n)
        for node in nodes
        if node["Alive"]
    )
    if not limit:
        parts = [f"processors: {workers.threads}"]
        parts += [f"GPUs: {workers.gpus}"] if workers.gpus else []
        parts += [f"memory: {workers.memory / 1e9:.1f} GB"] if workers.memory else []
        raise ValueError(f"a machine of the Ray cluster must have for a call {', '.join(parts)}")
    return limit


def _call_in(call: Call, folder: str) -> Any:
    """Make a call in a folder, which has the files that it names, on each machine of a cluster."""
    os.chdir(folder)
    return call()


def _result(ray: Any, reference: Any) -> Any:
    """Return the result of a call, or raise its error."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise OSError(errno.EIO, f"the Ray cluster has lost a call: {error}") from error

"""Processes in which players think, so that no visitor waits for another's slow player.

A search begins in one of a few fast places, but a run of many moves in a slow one if one is free.
If it takes longer than `PATIENCE` it moves to a slow place, with a lower priority, and its fast
place is free for others. Each visitor has one search at a time; it ends at a time limit or when the
visitor stops it, by the end of its process. A new process is a fork that shares the loaded players,
so that ending one costs little. Torch is not among them: a process loads it when its first player
needs it, before the time of the search begins. One such process is kept for players with torch,
also after a slow search, with its low priority.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from multiprocessing import forkserver
from typing import Any

from afterstate.envs.signals import blocked
from afterstate.web import choices
from afterstate.web.answers import Json, Refusal
from afterstate.web.settings import Limits
from afterstate.web.thinking import preload

LOGGER = logging.getLogger(__name__)

Search = Callable[[Json], Coroutine[Any, Any, Json]]

PATIENCE = 0.4
"""Seconds after which a search is slow."""
PREPARING = 120.0
"""Seconds in which a process loads a player with torch, or a learner, and compiles its kernels."""
MANY_MOVES = 100
"""Moves from which on a run takes a slow place at once, so that hints need not wait for it."""
_NICE = 10
STOPPED = 499
"""Status of the answer to a search that its visitor stopped, of which the page says nothing."""
_context = multiprocessing.get_context("forkserver")


def too_slow(seconds: float) -> Refusal:
    """Return the refusal of a search at its time limit."""
    return Refusal(503, f"stopped after {seconds:g} s: choose a faster player")


class Worker:
    """A process that answers requests.

    Args:
        target: the function that it runs with its end of the connection.
    """

    def __init__(self, target: Any) -> None:
        self._own, other = _context.Pipe()
        self.process = _context.Process(target=target, args=(other,), daemon=True)
        self.process.start()  # blocks while the default players are loaded
        other.close()
        self.loaded: set[str] = set()  # the players with torch, which it loads before a search
        self._asked: asyncio.Future[Json] | None = None

    async def ask(self, request: Json) -> Json:
        """Return the answer to a request.

        Raises:
            Refusal: the process has ended.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            self.tell(request)
            loop.add_reader(self._own.fileno(), _set, ready)
            await ready
            answer: Json = json.loads(self._own.recv_bytes())
        except (EOFError, OSError):
            raise Refusal(503, "the process of the player has ended: try again") from None
        finally:
            loop.remove_reader(self._own.fileno())
        return answer

    def tell(self, request: Json) -> None:
        """Send a request, without waiting for an answer."""
        self._own.send_bytes(json.dumps(request).encode())

    def begin(self, request: Json) -> asyncio.Future[Json]:
        """Return the answer to come, for which nobody has to wait."""
        self._asked = asyncio.ensure_future(self.ask(request))
        return self._asked

    @property
    def is_alive(self) -> bool:
        """True until the process ends."""
        return self.process.is_alive()

    def lower_priority(self) -> None:
        """Let other processes go first."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid or 0, _NICE)

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join(1)
        self._own.close()

    def abandon(self) -> None:
        """End the process, for whose last answer nobody waits."""
        if self._asked is None:
            return self.end()
        self._asked.add_done_callback(self._end)  # before its end of the connection is closed
        self._asked.cancel()
        return None

    def _end(self, asked: asyncio.Future[Json]) -> None:
        """End the process after its last answer, or instead of it."""
        ignore(asked)
        self.end()


async def new_worker(target: Any) -> Worker:
    """Return a new process, made in a thread for which nobody waits when the server ends.

    The first one waits until the default players are loaded.
    """
    made: Future[Worker] = Future()
    made.set_running_or_notify_cancel()

    def make() -> None:
        try:
            made.set_result(Worker(target))
        except Exception as error:
            made.set_exception(error)

    threading.Thread(target=make, daemon=True).start()
    return await asyncio.wrap_future(made)


def ignore(asked: asyncio.Future[Json]) -> None:
    """Retrieve the exception of a future that is done, so that asyncio does not log it."""
    if not asked.cancelled():
        asked.exception()


def _set(ready: asyncio.Future[None]) -> None:
    """Mark a future as done."""
    if not ready.done():
        ready.set_result(None)


class _Place:
    """The place of a search.

    Args:
        fast: the fast places, for which searches wait.
        slow: the slow ones, which searches take if one is free.
    """

    def __init__(self, fast: asyncio.Semaphore, slow: asyncio.Semaphore) -> None:
        self._fast, self._slow = fast, slow
        self._taken: asyncio.Semaphore | None = None

    @property
    def is_fast(self) -> bool:
        """True if it is a fast one."""
        return self._taken is self._fast

    async def take_fast(self) -> None:
        """Wait for a fast place and take it instead of the present one."""
        await self._fast.acquire()
        self.leave()
        self._taken = self._fast

    async def take_slow(self) -> None:
        """Take a slow place instead of the present one, unless it is slow already.

        Raises:
            Refusal: none is free.
        """
        if self._taken is self._slow:
            return
        if self._slow.locked():
            raise Refusal(503, "too many slow searches are running, try again or search less")
        await self._slow.acquire()
        self.leave()
        self._taken = self._slow

    def leave(self) -> None:
        """Give the place to others."""
        if self._taken is not None:
            self._taken.release()
        self._taken = None


class SearchPool:
    """The processes that search for all visitors.

    Args:
        limits: numbers of places, and the time of a search.

    Attributes:
        loaded: is set once the default players are loaded, or cannot be; searches wait for it.
        has_failed: True if the default players cannot be loaded.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._fast = asyncio.Semaphore(limits.fast)
        self._slow = asyncio.Semaphore(limits.slow)
        self._idle: list[Worker] = []
        self._searches: dict[str, asyncio.Task[Json]] = {}
        self.loaded = asyncio.Event()
        self.has_failed = False
        self._compiling: Any = None

    async def start(self) -> None:
        """Load the default players and start the first process; if that fails, log why."""
        os.environ[preload.LOADS] = str(os.getpid())
        os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # halves the memory of sparse tables
        os.environ["OMP_NUM_THREADS"] = "1"  # of torch
        _context.set_forkserver_preload(["afterstate.web.thinking.preload"])
        try:
            with tempfile.NamedTemporaryFile() as self._compiling:
                os.environ[preload.COMPILING] = self._compiling.name
                with blocked(signal.SIGINT):  # it ends with this process
                    forkserver.ensure_running()
                self._idle.append(await self._new())
        except Exception:
            LOGGER.exception("the default players cannot be loaded")
            self.has_failed = True
        self.loaded.set()

    @property
    def is_ready(self) -> bool:
        """True once the default players are loaded."""
        return self.loaded.is_set() and not self.has_failed

    @property
    def compiling(self) -> str:
        """The kernels that are compiled while the default players are loaded, and for how long."""
        if self._compiling is None or self._compiling.closed:
            return ""
        return os.pread(self._compiling.fileno(), 1000, 0).decode(errors="replace")

    async def _new(self) -> Worker:
        """Return a new process."""
        return await new_worker(preload.think)

    async def run(self, visitor: str, request: Json, search: Search | None = None) -> Json:
        """Return the answer to a visitor's request, after the default players are loaded.

        Args:
            visitor: has one search at a time, which `stop` stops.
            request: the request.
            search: answers the request; by default a process of this class.

        Raises:
            Refusal: the visitor has another search, no place is free, time is up, the search was
                stopped, or the player reports an error.
        """
        if visitor in self._searches:
            raise Refusal(429, "one search at a time: stop the one that runs, or wait for it")
        if len(self._searches) >= self._limits.waiting:
            raise Refusal(503, "too many searches are waiting, try again later")
        task = asyncio.create_task(self._when_loaded(search or self._search, request))
        self._searches[visitor] = task
        try:
            answer = await task
        except asyncio.CancelledError:
            raise Refusal(STOPPED, "the search was stopped") from None
        finally:
            self._searches.pop(visitor, None)
        if "error" in answer:
            raise Refusal(422, answer["error"])
        return answer

    async def _when_loaded(self, search: Search, request: Json) -> Json:
        """Return the answer to a request once the default players are loaded.

        Raises:
            Refusal: they cannot be loaded.
        """
        await self.loaded.wait()
        if self.has_failed:
            raise Refusal(503, "the players cannot be loaded: the log of the server says why")
        return await search(request)

    def is_running(self, visitor: str) -> bool:
        """Return True if a search of a visitor runs or waits."""
        return visitor in self._searches

    def stop(self, visitor: str) -> bool:
        """Stop the search of a visitor; return True if there was one."""
        task = self._searches.get(visitor)
        return task is not None and task.cancel()

    async def _search(self, request: Json) -> Json:
        """Return the answer to a request, from a fast place or a slow one."""
        place, worker = _Place(self._fast, self._slow), None
        needs_torch = "player" in request and choices.needs_torch(request["player"]["name"])
        try:
            if request.get("moves", 1) > MANY_MOVES and not self._slow.locked():
                await place.take_slow()
            else:
                await place.take_fast()
            worker = self._take_idle(needs_torch) or await self._new()
            if needs_torch and request["player"]["name"] not in worker.loaded:
                await self._load(worker, request, place)
            answer = await self._ask(worker, request, place)
            if place.is_fast or worker.loaded:
                self._keep(worker)
                worker = None
            return answer
        finally:
            if worker is not None:
                worker.abandon()
            place.leave()

    def _take_idle(self, needs_torch: bool) -> Worker | None:
        """Return an idle process, with torch only if it is needed, and then rather.

        None if there is none that has not been killed.
        """
        self._idle.sort(key=lambda worker: bool(worker.loaded))
        while self._idle and (needs_torch or not self._idle[0].loaded):
            worker = self._idle.pop(-1 if needs_torch else 0)
            if worker.is_alive:
                return worker
            worker.end()
        return None

    def _keep(self, worker: Worker) -> None:
        """Keep a process for the next search; with torch, which takes memory, only one."""
        if worker.loaded and any(each.loaded for each in self._idle):
            worker.end()
        else:
            self._idle.append(worker)

    async def _load(self, worker: Worker, request: Json, place: _Place) -> None:
        """Load torch and the player of a request, from a slow place."""
        await place.take_slow()
        loaded = worker.begin(request | {"kind": "load"})
        await asyncio.wait([loaded], timeout=PREPARING)
        if not loaded.done():
            raise Refusal(503, "the player is still being prepared, try again later")
        if "error" not in loaded.result():
            worker.loaded.add(request["player"]["name"])
        await place.take_fast()

    async def _ask(self, worker: Worker, request: Json, place: _Place) -> Json:
        """Return the answer of a process, which moves to a slow place if it takes long."""
        asked = worker.begin(request)
        done, _ = await asyncio.wait([asked], timeout=PATIENCE if place.is_fast else 0)
        if not done:
            await place.take_slow()
            worker.lower_priority()
            await asyncio.wait([asked], timeout=self._limits.seconds - PATIENCE)
        return self._result(asked)

    def _result(self, asked: asyncio.Future[Json]) -> Json:
        """Return the answer that came in time."""
        if not asked.done():
            raise too_slow(self._limits.seconds)
        return asked.result()

    async def close(self) -> None:
        """End all searches and processes."""
        tasks = list(self._searches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._idle:
            worker.end()
        self._idle.clear()

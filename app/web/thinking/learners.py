"""The learners of visitors, on the server's side: their processes, limits and curves."""

from __future__ import annotations

import asyncio
import contextlib
import time

from afterstate.web.answers import Json, Refusal
from afterstate.web.settings import Limits
from afterstate.web.thinking import preload
from afterstate.web.thinking.pool import PREPARING, Worker, ignore, new_worker, too_slow

LOST = "the network is lost, because its process has ended: start again"

_STEP = 0.5  # seconds of learning between two points of the curve


class _Learner:
    """A learner's process and its curve."""

    def __init__(self, worker: Worker, seed: int) -> None:
        self.worker, self.seed = worker, seed
        self.curve: list[Json] = []
        self.sample: Json = {}
        self.error = ""
        self.learned = 0.0  # seconds
        self.until = 0.0  # seconds of learning at which it stops
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None
        self.search: asyncio.Task[Json] | None = None

    @property
    def is_running(self) -> bool:
        """True while it learns."""
        return self.task is not None and not self.task.done()

    async def ask(self, request: Json, begun: asyncio.Event | None = None) -> Json:
        """Return the answer to a request; one is answered at a time, and `begun` is set then."""
        async with self.lock:
            if begun is not None:
                begun.set()
            answer = await self.worker.ask({**request, "seed": self.seed})
        if "error" in answer:
            raise Refusal(400, answer["error"])
        return answer

    async def answer(self, request: Json, seconds: float | None) -> Json:
        """Return the answer to a visitor's request.

        The process holds the network, so it does not end with a search that is stopped: the search
        runs on, and its answer is discarded. Games that are stopped end after the current one.

        Args:
            request: request for games, a hint or moves.
            seconds: time from the end of the current step of learning on, None for no limit.

        Raises:
            Refusal: an earlier search goes on, something goes wrong, or the time is up.
        """
        if self.search is not None and not self.search.done():
            raise Refusal(429, "your network has not ended its last search, try again in a moment")
        self.used = time.monotonic()
        begun = asyncio.Event()
        self.search = asyncio.create_task(self.ask(request, begun))
        self.search.add_done_callback(ignore)
        try:
            await asyncio.wait_for(begun.wait(), PREPARING)
        except asyncio.TimeoutError:
            self.search.cancel()
            raise Refusal(503, "your network is still being prepared, try again later") from None
        except asyncio.CancelledError:  # stopped before it has begun
            self.search.cancel()
            raise
        try:
            return await asyncio.wait_for(asyncio.shield(self.search), seconds)
        except asyncio.TimeoutError:
            raise too_slow(seconds or 0) from None
        except asyncio.CancelledError:
            if request["kind"] == "games":
                with contextlib.suppress(OSError):  # the process has ended
                    self.worker.tell({"kind": "stop"})
            raise

    async def run(self) -> None:
        """Learn until the time is up, or something goes wrong."""
        try:
            while self.learned < self.until:
                progress = await self.ask({"kind": "learn", "seconds": _STEP})
                self.sample = progress.pop("sample")
                self.learned = progress["seconds"]
                self.curve.append(progress)
        except Refusal as error:
            self.error = str(error)
        self.used = time.monotonic()


FULL = "networks of other visitors have all places, try again in some minutes"
"""The reason of a refusal when as many networks are kept as the limits allow."""


class Learners:
    """The learners of all visitors.

    Args:
        limits: number of learners, and their time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_visitor: dict[str, _Learner] = {}

    async def start(self, visitor: str, seed: int, seconds: float) -> Json:
        """Start a new learner in place of the visitor's earlier one.

        Raises:
            Refusal: there are too many.
        """
        self.forget(visitor)
        self._forget_idle()
        if len(self._by_visitor) >= self._limits.learners:
            raise Refusal(503, FULL)
        learner = _Learner(await new_worker(preload.learn), seed)
        learner.worker.lower_priority()
        self.forget(visitor)  # one that was started meanwhile
        if len(self._by_visitor) >= self._limits.learners:
            learner.worker.end()
            raise Refusal(503, FULL)
        self._by_visitor[visitor] = learner
        return self.resume(visitor, seconds)

    def resume(self, visitor: str, seconds: float) -> Json:
        """Learn on for a time, up to the limit."""
        learner = self._of(visitor)
        if learner.learned >= self._limits.learn_seconds:
            raise Refusal(409, f"a network may learn for {self._limits.learn_seconds:g} s")
        learner.until = min(learner.learned + seconds, self._limits.learn_seconds)
        if not learner.is_running:
            learner.error = ""
            learner.task = asyncio.create_task(learner.run())
        return self.state(visitor)

    def stop(self, visitor: str) -> Json:
        """Let a learner stop after its current step; it keeps its network."""
        self._of(visitor).until = 0.0
        return self.state(visitor)

    def state(self, visitor: str) -> Json:
        """Return the curve of a visitor's learner, without points if there is none."""
        learner = self._by_visitor.get(visitor)
        if learner is None:
            return {"exists": False, "running": False, "curve": [], "sample": {}}
        running = learner.is_running and learner.until > learner.learned
        return {
            "exists": True,
            "running": running,
            "curve": learner.curve,
            "sample": learner.sample,
            "error": learner.error if learner.worker.is_alive else LOST,
            "most_seconds": self._limits.learn_seconds,
        }

    async def ask(self, visitor: str, request: Json) -> Json:
        """Return the answer of the visitor's network to a request for games, a hint or moves.

        Raises:
            Refusal: there is no network, or see `_Learner.answer`.
        """
        has_own_time = request["kind"] == "games"
        seconds = None if has_own_time else self._limits.seconds
        return await self._of(visitor).answer(request, seconds)

    def forget(self, visitor: str) -> None:
        """End the learner of a visitor, if there is one."""
        learner = self._by_visitor.pop(visitor, None)
        if learner is not None:
            if learner.task is not None:
                learner.task.cancel()
            learner.worker.process.kill()  # whoever waits for an answer gets an error
            asyncio.get_running_loop().call_later(1, learner.worker.end)

    def close(self) -> None:
        """End all learners."""
        for visitor in list(self._by_visitor):
            self.forget(visitor)

    def _of(self, visitor: str) -> _Learner:
        """Return the learner of a visitor, who is there now."""
        learner = self._by_visitor.get(visitor)
        if learner is None:
            raise Refusal(404, "you have no network: let one learn on the page Learn")
        if not learner.worker.is_alive:
            raise Refusal(410, LOST)
        return learner

    def _forget_idle(self) -> None:
        """End learners that nobody has used for long."""
        now = time.monotonic()
        for visitor, each in list(self._by_visitor.items()):
            if not each.is_running and now - each.used > self._limits.idle_seconds:
                self.forget(visitor)

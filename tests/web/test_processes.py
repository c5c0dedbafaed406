"""Processes that think: one that is killed is replaced, and what it held is said to be lost."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from numba import njit

from afterstate.web.answers import Refusal
from afterstate.web.settings import Limits
from afterstate.web.thinking import preload
from afterstate.web.thinking.learners import LOST, Learners, _Learner
from afterstate.web.thinking.pool import PATIENCE, SearchPool, Worker
from tests.web.answering import allocate, echo, sleep

pytestmark = pytest.mark.slow

RANDOM = {"name": "random", "settings": {}}


def killed() -> Worker:
    """Return a process that has been killed while it had nothing to do."""
    worker = Worker(echo)
    worker.process.kill()
    worker.process.join(10)
    return worker


def test_a_process_answers_until_it_is_killed() -> None:
    async def ask() -> None:
        worker = Worker(echo)
        assert await worker.ask({"a": 1}) == {"a": 1}
        worker.process.kill()
        worker.process.join(10)
        for _ in range(2):
            with pytest.raises(Refusal, match="has ended"):
                await worker.ask({"a": 1})
        worker.end()

    asyncio.run(ask())


def test_a_killed_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def search() -> None:
        pool = SearchPool(Limits(seconds=60))  # on a busy machine, a process takes long to start
        pool.loaded.set()
        pool._idle.append(killed())

        async def new() -> Worker:
            return Worker(echo)

        monkeypatch.setattr(pool, "_new", new)
        for number in range(2):
            request = {"n": number, "player": RANDOM}
            assert await pool.run("visitor", request) == request
        await pool.close()

    asyncio.run(search())


def test_a_process_that_has_torch_is_kept_for_players_that_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To load it takes longer than a fast place has patience: that is no part of the search."""
    asked: list[tuple[int, str]] = []

    class Recorded(Worker):
        async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
            asked.append((self.process.pid or 0, request["kind"]))
            time_ = 1.5 * PATIENCE if request["kind"] == "load" else 0
            return await super().ask(request | {"time": time_})

    async def search() -> None:
        pool = SearchPool(Limits(fast=1, slow=1))
        pool.loaded.set()

        async def new() -> Worker:
            worker = Recorded(sleep)
            await Worker.ask(worker, {"time": 0})  # the process has started
            return worker

        monkeypatch.setattr(pool, "_new", new)
        for name in ("random", "value-net", "random", "value-net", "daihinmin-rank"):
            await pool.run("visitor", {"kind": "hint", "player": {"name": name}})
        await pool.close()

    asyncio.run(search())
    processes = list(dict.fromkeys(pid for pid, _ in asked))
    kinds = [(processes.index(pid), kind) for pid, kind in asked]
    expected = [(0, "hint"), (0, "load"), (0, "hint"), (1, "hint")]
    assert kinds == [*expected, (0, "hint"), (0, "load"), (0, "hint")]


def test_of_the_processes_that_have_torch_one_is_kept_also_a_slow_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Worker] = []

    async def search() -> None:
        pool = SearchPool(Limits(fast=2))
        pool.loaded.set()

        async def new() -> Worker:
            worker = Worker(sleep)
            started.append(worker)
            await worker.ask({"time": 0})  # the process has started
            return worker

        monkeypatch.setattr(pool, "_new", new)
        slow = {"time": 1.5 * PATIENCE, "kind": "hint", "player": {"name": "value-net"}}
        both = [pool.run(visitor, slow) for visitor in ("one", "other")]
        await asyncio.gather(*both)
        assert [worker.is_alive for worker in started].count(True) == 1
        await pool.run("one", slow)
        assert len(started) == 2
        await pool.close()

    asyncio.run(search())


def test_runs_of_many_moves_leave_the_fast_places_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("afterstate.web.thinking.pool.PATIENCE", 1.5)

    async def search() -> float:
        pool = SearchPool(Limits(fast=1, slow=2))
        pool.loaded.set()
        pool._idle.extend(Worker(sleep) for _ in range(2))
        for worker in pool._idle:
            await worker.ask({"time": 0})  # the processes have started
        many = {"player": RANDOM, "moves": 2000, "time": 2}
        running = asyncio.create_task(pool.run("run", many))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await pool.run("hint", {"player": RANDOM, "time": 0})
        took = time.monotonic() - start
        await running
        await pool.close()
        return took

    assert asyncio.run(search()) < 1


def test_a_search_that_takes_too_much_memory_is_refused() -> None:
    async def ask() -> None:
        worker = Worker(allocate)
        for of_torch in (False, True):
            request = {"kind": "allocate", "torch": of_torch, "n": 1 << 20}
            assert await worker.ask(request) == {"n": 1 << 20}
            assert "memory" in (await worker.ask(request | {"n": 8 << 30}))["error"]
        worker.end()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("compiles", "has_started_again"), [(True, False), (True, True), (False, False)]
)
def test_a_process_starts_again_once_after_it_has_compiled(
    compiles: bool, has_started_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler takes memory that every process would share."""
    started: list[list[str]] = []
    warm_up = partial(njit(lambda x: x + 1), 1) if compiles else lambda: 2
    monkeypatch.setattr("afterstate.web.thinking.workers.warm_up", warm_up)
    monkeypatch.setattr(os, "execv", lambda _, words: started.append(words))
    monkeypatch.setenv(preload.LOADS, str(os.getppid()))
    monkeypatch.setenv("AFTERSTATE_WEB_PLAYERS_COMPILED", "1")  # restored at the end
    if not has_started_again:
        monkeypatch.delenv("AFTERSTATE_WEB_PLAYERS_COMPILED")
    preload.load()
    assert started == ([sys.orig_argv] if compiles and not has_started_again else [])


def test_messages_on_compilation_are_written_for_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, logger = tmp_path / "compiling", logging.getLogger("afterstate.envs.compiling")
    file.write_text("an earlier message")
    monkeypatch.setenv(preload.COMPILING, str(file))
    with preload._telling():
        assert file.read_text() == ""
        logger.warning("compiling %s", "the rules")
        assert file.read_text() == "compiling the rules"
    logger.warning("compiling the players")
    assert file.read_text() == "compiling the rules"


def test_a_network_is_idle_unless_it_learns_or_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Any) -> Any:
        return request

    async def use() -> None:
        learners = Learners(Limits(idle_seconds=0.5))
        worker: Any = SimpleNamespace(is_alive=True, ask=answer)
        learner = learners._by_visitor["visitor"] = _Learner(worker, seed=1)
        monkeypatch.setattr(learners, "forget", learners._by_visitor.pop)
        for using in (learner.run(), learners.ask("visitor", {"kind": "hint"})):
            learner.used = time.monotonic() - 60
            await using
            learners._forget_idle()
            assert learners.state("visitor")["exists"]
        learner.used = time.monotonic() - 60
        assert learners.state("visitor")["exists"] and learners.stop("visitor")["exists"]
        learners._forget_idle()
        assert not learners.state("visitor")["exists"]

    asyncio.run(use())


def test_a_server_of_forks_ends_if_the_page_has_ended_before_it_began() -> None:
    code = "import time; from afterstate.web.thinking import workers\n"
    code += "workers.warm_up = lambda: time.sleep(60)\n"
    code += "from afterstate.web.thinking import preload; raise SystemExit(1)"
    environment = {**os.environ, preload.LOADS: str(2**30)}
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, env=environment, timeout=50).returncode == 0


@pytest.mark.parametrize("gap", range(6))
def test_searches_that_are_stopped_twice_give_their_places_back(
    gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []

    async def search() -> None:
        pool = SearchPool(Limits(fast=1))
        pool.loaded.set()

        async def new() -> Worker:
            started.append(Worker(sleep))
            return started[-1]

        monkeypatch.setattr(pool, "_new", new)
        for _ in range(2):
            asked = asyncio.create_task(pool.run("visitor", {"time": 30, "player": RANDOM}))
            await asyncio.sleep(0.1)
            assert pool.stop("visitor")
            for _ in range(gap):
                await asyncio.sleep(0)
            pool.stop("visitor")
            with pytest.raises(Refusal, match="stopped"):
                await asked
        request = {"time": 0, "player": RANDOM}
        assert await asyncio.wait_for(pool.run("other", request), 60) == request
        await pool.close()

    asyncio.run(search())
    assert len(started) == 3
    for worker in started:
        worker.process.join(10)
        assert not worker.is_alive


def test_a_network_that_learns_answers_one_request_at_a_time() -> None:
    async def ask() -> None:
        limits = Limits(seconds=60)
        pool, learners = SearchPool(limits), Learners(limits)
        pool.loaded.set()
        learner = learners._by_visitor["me"] = _Learner(Worker(sleep), 1)
        search = partial(learners.ask, "me")
        first = asyncio.create_task(pool.run("me", {"kind": "hint", "time": 1}, search))
        await asyncio.sleep(0.1)
        assert pool.is_running("me")
        with pytest.raises(Refusal, match="one search at a time"):
            await pool.run("me", {"kind": "hint", "time": 0}, search)
        pool.stop("me")
        with pytest.raises(Refusal, match="the search was stopped"):
            await first
        with pytest.raises(Refusal, match="has not ended its last search"):
            await pool.run("me", {"kind": "hint", "time": 0}, search)
        assert learner.search is not None
        await asyncio.wait_for(learner.search, 60)
        for _ in range(2):
            assert (await pool.run("me", {"kind": "hint", "time": 0}, search))["time"] == 0
        learners.close()

    asyncio.run(ask())


def test_a_search_of_a_network_that_learns_has_the_time_limit() -> None:
    async def ask() -> None:
        limits = Limits(seconds=1)
        pool, learners = SearchPool(limits), Learners(limits)
        pool.loaded.set()
        learner = learners._by_visitor["me"] = _Learner(Worker(sleep), 1)
        search = partial(learners.ask, "me")
        with pytest.raises(Refusal, match="stopped after 1 s"):
            await pool.run("me", {"kind": "play", "time": 3}, search)
        assert not pool.is_running("me")
        assert learner.search is not None
        await asyncio.wait_for(learner.search, 60)
        answer = await pool.run("me", {"kind": "games", "time": 1.5}, search)
        assert answer["time"] == 1.5
        step = asyncio.create_task(learner.ask({"kind": "learn", "time": 1.5}))
        await asyncio.sleep(0.05)  # the time begins when the step of learning has ended
        answer = await pool.run("me", {"kind": "hint", "time": 0.01}, search)
        assert answer["time"] == 0.01 and step.done()
        learners.close()

    asyncio.run(ask())


def test_the_network_of_a_killed_process_is_lost() -> None:
    async def learn() -> None:
        learners = Learners(Limits())
        learners._by_visitor["visitor"] = _Learner(killed(), 1)
        assert learners.state("visitor")["error"] == LOST
        with pytest.raises(Refusal, match="network is lost") as refused:
            learners.resume("visitor", 5)
        assert refused.value.status == 410
        with pytest.raises(Refusal, match="network is lost"):
            await learners.ask("visitor", {"kind": "hint"})
        learners.close()
        assert learners.state("visitor")["exists"] is False

    asyncio.run(learn())


def test_searches_are_refused_if_the_players_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that wait already; the log has the reason."""

    async def search() -> None:
        pool = SearchPool(Limits(seconds=60))

        async def new() -> Worker:
            raise EOFError("the server of forks is gone")

        monkeypatch.setattr(pool, "_new", new)
        waiting = asyncio.create_task(pool.run("a", {"player": RANDOM}))
        await asyncio.sleep(0)
        await pool.start()
        for asked in (waiting, pool.run("b", {"player": RANDOM})):
            with pytest.raises(Refusal, match="the players cannot be loaded"):
                await asyncio.wait_for(asked, 60)
        assert pool.has_failed and not pool.is_ready
        await pool.close()

    asyncio.run(search())
    assert "the server of forks is gone" in caplog.text


def test_a_search_waits_until_the_players_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def search() -> None:
        pool = SearchPool(Limits(seconds=60))

        async def new() -> Worker:
            return Worker(echo)

        monkeypatch.setattr(pool, "_new", new)
        stopped, asked = (
            asyncio.create_task(pool.run(visitor, {"player": RANDOM})) for visitor in "ab"
        )
        await asyncio.sleep(0.05)
        assert pool.is_running("a") and pool.stop("a")
        with pytest.raises(Refusal, match="stopped"):
            await stopped
        pool.loaded.set()
        assert await asyncio.wait_for(asked, 60) == {"player": RANDOM}
        await pool.close()

    asyncio.run(search())

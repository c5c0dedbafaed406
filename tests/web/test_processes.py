"""Processes that think: one that is killed is replaced, and what it held is said to be lost."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection

import pytest

pytest.importorskip("fastapi")

from afterstate.web.settings import Limits
from afterstate.web.thinking.learners import LOST, Learners, _Learner
from afterstate.web.thinking.pool import Refusal, Thinking, Worker


def echo(connection: Connection) -> None:
    """Answer each request with itself."""
    while True:
        try:
            connection.send_bytes(connection.recv_bytes())
        except EOFError:
            return


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
            with pytest.raises(Refusal, match="stopped"):
                await worker.ask({"a": 1})
        worker.end()

    asyncio.run(ask())


def test_a_killed_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def search() -> None:
        thinking = Thinking(Limits())
        thinking.is_ready = True
        thinking._idle.append(killed())

        async def new() -> Worker:
            return Worker(echo)

        monkeypatch.setattr(thinking, "_new", new)
        for number in range(2):
            assert await thinking.run("visitor", {"n": number}) == {"n": number}
        await thinking.close()

    asyncio.run(search())


def test_the_network_of_a_killed_process_is_lost() -> None:
    async def learn() -> None:
        learners = Learners(Limits())
        learners._by_visitor["visitor"] = _Learner(killed(), 1)
        assert learners.state("visitor")["error"] == LOST
        with pytest.raises(Refusal, match="network is lost") as refused:
            learners.resume("visitor", 5)
        assert refused.value.status == 410
        with pytest.raises(Refusal, match="network is lost"):
            await learners.ask("visitor", {})
        learners.close()
        assert learners.state("visitor")["exists"] is False

    asyncio.run(learn())

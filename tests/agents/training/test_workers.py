"""Calls in other processes, of this machine or of a cluster, give the same results in any case."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest

from afterstate.agents.game2048.players import PRETRAINED
from afterstate.agents.training.workers import Workers, _free_for, _watch
from afterstate.envs import json_files
from tests.support.game2048.commands import run_log

pytest.importorskip("joblib")

ROOT = Path(__file__).parents[3]

STARTER = """
import os, time
from functools import partial
from afterstate.agents.training.workers import Workers

def work(number):
    os.write(1, f"worker {os.getpid()}\\n".encode())  # at once: two processes write to one pipe
    time.sleep(0.2)
    return number

for done in Workers(2).results(partial(work, number) for number in range(10_000)):
    print("done", done, flush=True)
"""


def runs(process: int) -> bool:
    """Return True if a process runs."""
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_worker_whose_starter_has_ended_before_it_began_ends() -> None:
    code = f"import time; from {_watch.__module__} import _watch; _watch(2**30); time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", code], timeout=50).returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_workers_end_with_the_process_that_started_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "starter.py").write_text(STARTER)
    command, pipe = [sys.executable, "starter.py"], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, text=True, stdout=pipe) as starter:
        assert starter.stdout
        workers: set[int] = set()
        while len(workers) < 2:  # one worker may do several tasks before the other has started
            word, process = starter.stdout.readline().split()
            workers |= {int(process)} if word == "worker" else set()
        assert all(runs(each) for each in workers) and os.getpid() not in workers
        starter.send_signal(number)
        starter.wait(10)
        deadline = time.monotonic() + 30
        while any(runs(each) for each in workers):
            assert time.monotonic() < deadline
            time.sleep(0.1)


SLOW_START = """
import sys, time
from functools import partial
from afterstate.agents.training.workers import Workers

if __name__ == "__main__":
    try:
        list(Workers(2).results(partial(time.sleep, 60) for _ in range(2)))
    except KeyboardInterrupt:
        sys.exit("interrupted")
"""


@contextlib.contextmanager
def starting(folder: Path, code: str, n_children: int) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a session of its own; begin when it has this many child processes."""
    (folder / "starter.py").write_text(code)
    options: dict[str, Any] = {"start_new_session": True, "text": True, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "starter.py"], cwd=folder, **options) as starter:
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
        while len(children.read_text().split()) < n_children:
            assert starter.poll() is None
        yield starter


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.4, 2.0])
def test_processes_that_are_interrupted_print_nothing(tmp_path: Path, seconds: float) -> None:
    with starting(tmp_path, SLOW_START, 2) as starter:
        time.sleep(seconds)
        os.killpg(starter.pid, signal.SIGINT)  # as a terminal does
        _, errors = starter.communicate(timeout=30)
    assert errors == "interrupted\n"


SAVED = """
import sys, time
from functools import partial
from afterstate.agents.training.workers import Workers

if __name__ == "__main__":
    try:
        list(Workers(2).as_they_end((partial(time.sleep, 60) for _ in range(4)), save=True))
    except KeyboardInterrupt:
        sys.exit("no call was made")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_calls_that_could_save_do_not_begin_after_an_interrupt(
    tmp_path: Path, number: signal.Signals
) -> None:
    with starting(tmp_path, SAVED, 4) as starter:  # two of them track resources
        if number == signal.SIGINT:
            os.killpg(starter.pid, number)  # as a terminal does
        else:
            starter.send_signal(number)
        _, errors = starter.communicate(timeout=40)
    assert errors == "interrupted: other processes are saving\nno call was made\n"


AGAIN = """
import os, signal, threading, time
from functools import partial
from afterstate.agents.training.workers import Workers

if __name__ == "__main__":
    threading.Timer(2, os.killpg, (os.getpgid(0), signal.SIGINT)).start()
    try:
        list(Workers(2).as_they_end((partial(time.sleep, 60) for _ in range(2)), save=True))
    except KeyboardInterrupt:
        print("interrupted")
    print(sorted(Workers(2).as_they_end((partial(abs, -n) for n in range(3)), save=True)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to processes")
def test_a_program_may_go_on_after_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    options: dict[str, Any] = {"start_new_session": True, "stdout": subprocess.PIPE}
    command = [sys.executable, "again.py"]
    run = subprocess.run(command, cwd=tmp_path, text=True, timeout=40, **options)
    assert run.stdout == "interrupted\n[0, 1, 2]\n"


SAVING = """
import os, sys, time
from functools import partial
from pathlib import Path
from afterstate.agents.training.workers import Workers

def work(number):
    try:
        os.write(1, f"begun {number}\\n".encode())  # at once
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(float(sys.argv[1]))
        Path(str(number)).touch()
        raise KeyboardInterrupt(f"{number} is saved") from None

if __name__ == "__main__":
    list(Workers(2).as_they_end((partial(work, number) for number in range(9)), save=True))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to processes")
@pytest.mark.parametrize(
    ("number", "again"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["once", "twice", "terminated"],
)
def test_interrupted_calls_save_unless_interrupted_again(
    tmp_path: Path, number: signal.Signals, again: bool
) -> None:
    (tmp_path / "saving.py").write_text(SAVING)
    command, pipe = [sys.executable, "saving.py", "30" if again else "1"], subprocess.PIPE
    options: dict[str, Any] = {"start_new_session": True, "stdout": pipe, "stderr": pipe}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **options) as starter:
        assert starter.stdout and starter.stderr
        assert {starter.stdout.readline() for _ in range(2)} == {"begun 0\n", "begun 1\n"}
        if number == signal.SIGINT:
            os.killpg(starter.pid, number)  # as a terminal does
        else:
            starter.send_signal(number)
        assert starter.stderr.readline() == "interrupted: other processes are saving\n"
        if again:
            time.sleep(1)
            starter.send_signal(signal.SIGINT)
        _, errors = starter.communicate(timeout=25)
    saved = {path.name for path in tmp_path.iterdir() if path.name.isdigit()}
    assert starter.returncode != 0 and "KeyboardInterrupt" in errors
    assert saved == (set() if again else {"0", "1"})
    assert ("0 is saved" in errors and "1 is saved" in errors) != again


@pytest.mark.parametrize("jobs", [None, 1, 2])
def test_calls_may_be_without_end(jobs: int | None) -> None:
    results = Workers(jobs).results(partial(abs, -number) for number in count())
    assert list(islice(results, 20)) == list(range(20))
    results.close()


def end() -> None:
    """Kill the process, as a system without memory does."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_a_killed_process_is_a_failure_of_the_system() -> None:
    with pytest.raises(OSError, match="a process that makes calls was killed") as failure:
        list(Workers(2).results([partial(abs, -1), end, partial(abs, -2)]))
    assert failure.value.errno == errno.EIO  # the command ends with 1


# A cluster of two machines, started as two on this one


class Cluster(NamedTuple):
    """A cluster of Ray."""

    address: str
    n_nodes: int


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Ray cluster of two nodes with a processor each, which this process is connected to."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster as Nodes

    options = {"num_cpus": 1, "object_store_memory": 100 << 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))  # the nodes find the experiments there
        nodes = Nodes(initialize_head=True, head_node_args={**options, "include_dashboard": False})
        nodes.add_node(**options)
    ray.init(address=nodes.address, log_to_driver=False)
    yield Cluster(nodes.address, len(ray.nodes()))
    ray.shutdown()
    nodes.shutdown()


class Result(NamedTuple):
    """The result of a call: its number, the times that it was begun, and its node."""

    number: int
    n_begun: int
    node: str


def die_once(folder: Path, number: int) -> Result:
    """Return the result of a call; every fifth call kills its process when it is begun first."""
    import ray

    with (folder / str(number)).open("a") as file:
        file.write("begun\n")
    n_begun = len((folder / str(number)).read_text().splitlines())
    if number % 5 == 2 and n_begun == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05 * (number % 3))
    return Result(number, n_begun, ray.get_runtime_context().get_node_id())


@pytest.mark.slow
def test_a_call_of_a_killed_worker_is_made_again_and_no_result_lost_or_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    calls = [partial(die_once, tmp_path, number) for number in range(12)]
    in_order = list(Workers(None, "ray").results(calls))
    assert [each.number for each in in_order] == list(range(12))
    assert [each.n_begun for each in in_order] == [2 if n % 5 == 2 else 1 for n in range(12)]
    assert len({each.node for each in in_order}) == cluster.n_nodes == 2
    again = list(Workers(2, "ray").as_they_end(calls))
    assert sorted(each.number for each in again) == list(range(12))


def test_a_cluster_makes_as_many_calls_as_have_room() -> None:
    nodes = [
        {"Alive": alive, "Resources": {"CPU": n_cores, "memory": gigabytes * 1e9}}
        for n_cores, gigabytes, alive in ((8.0, 16.0, True), (3.0, 64.0, True), (64.0, 99.0, False))
    ]
    nodes.append({"Alive": True, "Resources": {"memory": 9e9}})  # gives no processor to calls
    nodes.append({"Alive": True, "Resources": {"CPU": 1.0, "GPU": 4.0}})
    free = {
        (threads, gigabytes): _free_for(Workers(threads=threads, memory=gigabytes), nodes)
        for threads, gigabytes in ((1, 0), (2, 0), (1, 5 * 10**9), (4, 10**9))
    }
    assert list(free.values()) == [12, 5, 6, 2]
    assert _free_for(Workers(gpus=1), nodes) == 1
    message = "^a machine of the Ray cluster must have for a call processors: 2, memory: 70.0 GB$"
    with pytest.raises(ValueError, match=message):
        _free_for(Workers(threads=2, memory=70 * 10**9), nodes)
    with pytest.raises(ValueError, match=r"processors: 2, GPUs: 1$"):
        _free_for(Workers(threads=2, gpus=1), nodes)


@pytest.mark.slow
def test_a_call_that_no_machine_has_room_for_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="must have for a call processors: 2"):
        list(Workers(cluster.n_nodes, "ray", threads=2).results([partial(abs, -1)]))
    assert list(Workers(1, "ray", memory=1 << 20).results([partial(abs, -1)])) == [1]


def fail(number: int) -> None:
    """Raise an error."""
    raise ValueError(f"number {number} is wrong")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_errors_of_calls_are_those_of_the_caller(cluster: Cluster, backend: Any) -> None:
    with pytest.raises(ValueError, match=r"^number 3 is wrong$"):
        list(Workers(2, backend).results([partial(fail, 3)]))


TINY = ROOT / "tests" / "data" / "experiments"
COMMANDS = {
    "log": "afterstate log moves.npy --player reward --games 160 --batch 8",
    "rank": "afterstate train rank --out run --generations 1 --games 60 --table 6 --iterations 2",
    "daihinmin-policy": "afterstate train daihinmin-policy --out run --games 4000",
    "quasi_greedy": "benchmarks.experiments.quasi_greedy.run restart learn --smoke",
    "mc_softmax": f"benchmarks.experiments.mc_softmax.run learn --settings {TINY}/mc_softmax.json"
    " --runs run --out out --repeats 4",
    "regrets": "benchmarks.experiments.mc_softmax.run regrets --settings regrets.json"
    " --runs run --out out",
    "policy_log": f"benchmarks.experiments.policy_nets.run log --settings {TINY}/policy_nets.json"
    " --runs run --moves 30000",
    "policy_nets": "benchmarks.experiments.policy_nets.run train"
    f" --settings {TINY}/policy_nets.json --runs . --out out --repeats 2",
    "alphabeta": f"benchmarks.experiments.alphabeta.run play --settings {TINY}/alphabeta.json"
    " --out out",
    "daihinmin": f"benchmarks.experiments.daihinmin.run {TINY}/daihinmin.json train"
    " --runs run --repeats 3",
}
FILES = {
    "log": "moves.npy",
    "rank": "run/games/*",
    "daihinmin-policy": "run/ascent.npz",
    "quasi_greedy": "out/experiments/restart.jsonl",
    "mc_softmax": "out/learning.jsonl",
    "regrets": "out/regrets.jsonl",
    "policy_log": "run/moves.npy",
    "policy_nets": "out/learning.jsonl",
    "alphabeta": "out/games.jsonl",
    "daihinmin": "run/daihinmin/*/rows.jsonl",
}
"""The files of the commands that depend on the games alone, or whose rows do but for times."""


def regrets() -> dict[str, Any]:
    """Return settings of players that are measured on positions, by the pretrained network."""
    settings: dict[str, Any] = json_files.read(TINY / "mc_softmax.json")
    settings["networks"]["ntuple"] = sha256(PRETRAINED.read_bytes()).hexdigest()[:16]
    return settings


def kill_a_worker(run: subprocess.Popen[bytes]) -> None:
    """Kill a process that makes a call of a run."""
    while run.poll() is None:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if process.read_bytes().startswith(b"ray::_call_in"):
                    os.kill(int(process.parent.name), signal.SIGKILL)
                    return
        time.sleep(0.05)
    pytest.fail("the run has ended before a worker was killed")


TIME = re.compile("second|cpu_us")
"""Entries of rows that are times."""


def contents(file: Path) -> dict[str, bytes]:
    """Return the bytes of a file, without times of rows; of an archive those of its parts."""
    if file.suffix == ".jsonl":
        rows = [
            {name: value for name, value in row.items() if not TIME.search(name)}
            for row in json_files.rows(file)
        ]
        return {"": json_files.to_lines(sorted(rows, key=str))}
    if file.suffix != ".npz":
        return {"": file.read_bytes()}
    with ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_makes_the_same_files_though_a_worker_is_killed(
    cluster: Cluster, tmp_path: Path, command: str
) -> None:
    made = []
    for backend in ("local", "ray"):
        (folder := tmp_path / backend).mkdir()
        (folder / "regrets.json").write_text(json.dumps(regrets()))
        if command == "policy_nets":
            run_log(str(folder / "moves.npy"), "--player", "reward", "--moves", "4000")
        words = f"-m {COMMANDS[command]} --backend {backend} --jobs 2".split()
        variables = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen([sys.executable, *words], cwd=folder, env=variables) as run:
            if backend == "ray":
                kill_a_worker(run)
            assert run.wait(300) == 0
        made.append([contents(file) for file in sorted(folder.glob(FILES[command]))])
    assert made[0] == made[1] != []

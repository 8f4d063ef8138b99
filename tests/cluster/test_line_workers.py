"""Losses of workers, on a stand-in for Ray that decides who dies when."""

import threading
import types

import pytest

from keras_transformer.cluster import line_workers
from keras_transformer.cluster.block_folder import BlockName
from keras_transformer.cluster.line_workers import Block, LineWorkers
from keras_transformer.cluster.worker_resources import Resources
from keras_transformer.errors import UserInputError


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Died(RayError):
    """The worker of a call is dead."""


class CannotStart(Died):
    actor_init_failed = True


class Call:
    """The reference of an answer."""

    def __init__(self, worker, name, block=None):
        self.worker, self.name, self.block = worker, name, block


class Cluster:
    """As much of Ray as the workers of a job see.

    `fate(worker, call, block)` is asked when a call would end: it returns None if it goes well,
    or the error that ends it. A `Died` is the worker's end. Workers count from 0; calls are "load",
    "ping" and "answer". Calls end in the order in which they were made, those in `slow` last.
    """

    exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, fate=lambda worker, call, block: None, cpus=8):
        self.fate = fate
        self.cpus = cpus
        self.workers, self.dead, self.killed, self.slow = 0, set(), set(), set()
        self.calls = []

    def remote(self, **options):
        return lambda actor: types.SimpleNamespace(remote=self._start)

    def _start(self, *arguments):
        number, self.workers = self.workers, self.workers + 1
        methods = {
            name: types.SimpleNamespace(remote=lambda *block, name=name: Call(number, name, *block))
            for name in ("load", "ping", "answer")
        }
        return types.SimpleNamespace(number=number, **methods)

    def wait(self, references, num_returns, timeout):
        done = min(references, key=lambda call: (call.worker, call.name) in self.slow)
        return [done], [x for x in references if x is not done]

    def get(self, reference):
        number, name, block = reference.worker, reference.name, reference.block
        self.calls.append((number, name))
        error = Died() if number in self.dead | self.killed else self.fate(number, name, block)
        if isinstance(error, Died):
            self.dead.add(number)
        if isinstance(error, UserInputError):
            return line_workers._Answer([], "", str(error))
        if error is not None:
            raise error
        lines = [line.upper() for line in block.lines] if block else []
        return line_workers._Answer(lines, "", None)

    def kill(self, worker):
        self.killed.add(worker.number)

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": self.cpus}}] if self.cpus else []


def blocks(number):
    for index in range(number):
        yield Block(BlockName(0, index), ["a.en"], 2 * index, [f"a{index}", f"b{index}"])


def answers(cluster, number, workers=2, source=None):
    job = LineWorkers(cluster, None, Resources(workers, 1, 0))
    found = list(job.answers(blocks(number) if source is None else source, number))
    assert cluster.killed == set(range(cluster.workers))  # none is left behind
    return {block.name.block: lines for block, lines in found}


def all_of(number):
    return {index: [f"A{index}", f"B{index}"] for index in range(number)}


def test_each_block_is_answered_once():
    cluster = Cluster()
    assert answers(cluster, 9) == all_of(9)
    assert cluster.workers == 2


def test_there_are_no_more_workers_than_blocks():
    cluster = Cluster()
    assert answers(cluster, 1, workers=5) == all_of(1)
    assert cluster.workers == 1


def test_a_dead_worker_costs_its_block(capsys):
    def fate(worker, call, block):
        return Died() if (worker, call) == (1, "answer") else None

    cluster = Cluster(fate)
    assert answers(cluster, 5) == all_of(5)
    assert cluster.workers == 3
    assert capsys.readouterr().err == (
        "A worker was lost with lines 3 to 4 of a.en: another one answers them\n"
    )


def test_idle_workers_that_died_too_do_not_end_the_job(capsys):
    """A machine with a straggler and seven workers without work is lost at once."""
    cluster = Cluster()
    cluster.slow = {(0, "answer")}

    def fate(worker, call, block):
        if (worker, call) == (0, "answer"):  # the last one at work: the others are idle
            cluster.dead |= set(range(8))
            return Died()
        return None

    cluster.fate = fate
    assert answers(cluster, 8, workers=8) == all_of(8)
    assert capsys.readouterr().err.count("A worker was lost with") == 1
    assert cluster.workers < 16  # no more than there is work for


def test_a_block_that_ends_its_workers_ends_the_job():
    deadly = Cluster(
        lambda worker, call, block: Died() if block and block.name.block == 1 else None
    )
    with pytest.raises(UserInputError, match="4 workers were lost with lines 3 to 4 of a.en"):
        answers(deadly, 3)


def test_a_machine_whose_workers_never_load_costs_the_others_nothing(capsys):
    def fate(worker, call, block):
        return Died() if worker and call == "load" else None  # worker 0 alone is sound

    assert answers(Cluster(fate), 50) == all_of(50)
    assert capsys.readouterr().err.count("while it loaded its model") > 8


@pytest.mark.parametrize(("number", "workers", "loads"), [(20, 2, 8), (1, 64, 4)])
def test_a_model_that_never_loads_ends_the_job(number, workers, loads):
    cluster = Cluster(lambda worker, call, block: Died())
    with pytest.raises(UserInputError, match="Loading the model ended workers again and again"):
        answers(cluster, number, workers)
    assert len(cluster.calls) == loads


def test_an_error_of_one_machine_is_tried_elsewhere(capsys):
    def fate(worker, call, block):
        return RayTaskError("Traceback\nCUDA error: 9") if block and worker == 0 else None

    assert answers(Cluster(fate), 5) == all_of(5)
    assert "lines 1 to 2 of a.en (CUDA error: 9): another one" in capsys.readouterr().err


def test_an_error_of_the_code_is_raised():
    def fate(worker, call, block):
        return RayTaskError("of the code") if block and block.name.block == 1 else None

    with pytest.raises(RayTaskError, match="of the code"):
        answers(Cluster(fate), 3)
    with pytest.raises(RayTaskError, match="of the code"):
        answers(Cluster(lambda worker, call, block: RayTaskError("of the code")), 3)


def test_a_worker_that_cannot_start_says_why():
    error = CannotStart("The actor died.\nTraceback\nModuleNotFoundError: No module named 'keras'")
    with pytest.raises(UserInputError, match="cannot start: ModuleNotFoundError: No module named"):
        answers(Cluster(lambda worker, call, block: error), 3)


def test_an_error_of_the_user_ends_the_job():
    def fate(worker, call, block):
        return UserInputError("Line 3 is too long") if block and block.first_index == 2 else None

    with pytest.raises(UserInputError, match="^Line 3 is too long$"):
        answers(Cluster(fate), 3)


def test_what_is_answered_before_an_input_fails_is_kept():
    def failing():
        yield from blocks(2)
        raise UserInputError("a.en changed")

    job = LineWorkers(Cluster(), None, Resources(1, 1, 0)).answers(failing(), 4)
    found = [next(job), next(job)]
    assert [block.name.block for block, _ in found] == [0, 1]
    with pytest.raises(UserInputError, match="a.en changed"):
        next(job)


def test_nothing_waits_for_an_input_that_is_read():
    """Ctrl-C, while the block after the next one is looked for behind hours of others."""
    found = threading.Event()

    def slow():
        yield from blocks(2)
        found.wait(60)

    job = LineWorkers(Cluster(), None, Resources(1, 1, 0)).answers(slow(), 3)
    next(job)
    job.close()
    assert not found.is_set()
    found.set()


def test_a_cluster_without_machines_is_told(capsys):
    cluster = Cluster(cpus=0)
    wait, tries = cluster.wait, iter([True, True, False])
    cluster.wait = lambda references, num_returns, timeout: (
        ([], references) if next(tries, False) else wait(references, num_returns, timeout)
    )
    assert answers(cluster, 1) == all_of(1)
    assert capsys.readouterr().err == (
        "The cluster has no machine left for a worker: waiting for one\n"
    )

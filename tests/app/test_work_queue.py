"""Fair turns, shared batches, bounds and ends of a model's queue."""

import queue
import threading

import pytest

from keras_transformer.toolkit.app.loaded_runs import Job, QueueClosed, QueueFull, WorkQueue


class Gate:
    """Computes upper case; each batch waits for a turn and is noted."""

    def __init__(self):
        self.turns = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.batches = []

    def __call__(self, work, items):
        self.batches.append((work, list(items)))
        self.begun.release()
        self.turns.acquire()
        for item in items:
            if "bad" in item:
                raise ValueError(item)
        return [item.upper() for item in items]

    def open(self):
        self.turns.release(1000)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def make_queue(gate):
    queues = []

    def make(**options):
        queues.append(WorkQueue(gate, **options))
        return queues[-1]

    yield make
    gate.open()
    for one in queues:
        one.close()


def submit(work_queue, work, items):
    """Submit a job; gives it and the queue of its results."""
    results = queue.Queue()
    job = Job(work, items, results.put)
    work_queue.submit(job)
    return job, results


def taken(results, number):
    return [results.get(timeout=60) for _ in range(number)]


def blocked(gate, work_queue):
    """Occupy the thread, so that what is submitted next waits."""
    _, results = submit(work_queue, "block", ["x"])
    assert gate.begun.acquire(timeout=60)
    return results


def test_results_come_in_the_order_of_the_items(gate, make_queue):
    gate.open()
    _, results = submit(make_queue(batch_size=3), "work", list("abcdefgh"))
    assert taken(results, 8) == list("ABCDEFGH")
    assert [len(items) for _, items in gate.batches] == [3, 3, 2]


def test_compiled_work_waits_for_one_compilation_at_most(gate, make_queue):
    compiled = {"usual"}
    work_queue = make_queue(is_compiled=lambda work: work in compiled)
    blocked(gate, work_queue)  # is compiled too
    for number in range(3):
        submit(work_queue, f"new {number}", ["x"])
    submit(work_queue, "usual", ["a"])
    submit(work_queue, "usual", ["b"])
    gate.open()
    _, last = submit(work_queue, "new 3", ["x"])
    taken(last, 1)
    works = [work for work, _ in gate.batches]
    assert works == ["block", "usual", "new 0", "new 1", "new 2", "new 3"]
    assert gate.batches[1] == ("usual", ["a", "b"])


def test_jobs_of_the_same_work_share_a_batch_in_turn(gate, make_queue):
    work_queue = make_queue(batch_size=4)
    blocked(gate, work_queue)
    _, long = submit(work_queue, "work", ["a1", "a2", "a3", "a4", "a5"])
    _, other = submit(work_queue, "another", ["o1"])
    _, short = submit(work_queue, "work", ["b1"])
    gate.open()
    assert taken(short, 1) + taken(other, 1) == ["B1", "O1"]
    assert taken(long, 5) == ["A1", "A2", "A3", "A4", "A5"]
    assert gate.batches[1:] == [
        ("work", ["a1", "b1", "a2", "a3"]),
        ("another", ["o1"]),
        ("work", ["a4", "a5"]),
    ]


def test_a_job_whose_results_nobody_needs_is_dropped(gate, make_queue):
    work_queue = make_queue(batch_size=1)
    blocked(gate, work_queue)
    gone, _ = submit(work_queue, "work", ["a", "b"])
    _, results = submit(work_queue, "work", ["c"])
    work_queue.cancel(gone)
    assert work_queue.waiting() == 1
    gate.open()
    assert taken(results, 1) == ["C"]
    assert [items for _, items in gate.batches] == [["x"], ["c"]]


def test_a_failure_ends_its_own_job_alone(gate, make_queue):
    work_queue = make_queue(batch_size=4)
    blocked(gate, work_queue)
    _, bad = submit(work_queue, "work", ["bad 1", "later"])
    _, good = submit(work_queue, "work", ["a", "b"])
    gate.open()
    assert taken(good, 2) == ["A", "B"]
    (error,) = taken(bad, 1)
    assert (type(error), str(error)) == (ValueError, "bad 1")
    assert bad.empty()


def test_a_full_queue_refuses_with_an_estimate(gate, make_queue):
    work_queue = make_queue(most_jobs=2)
    blocked(gate, work_queue)
    for _ in range(2):
        submit(work_queue, "work", ["a"] * 20)
    with pytest.raises(QueueFull) as caught:
        submit(work_queue, "work", ["b"])
    assert caught.value.seconds == 4  # 40 items of 0.1 seconds, the guess at the beginning


def test_the_end_tells_all_that_wait(gate, make_queue):
    work_queue = make_queue()
    computed = blocked(gate, work_queue)
    _, waits = submit(work_queue, "work", ["a"])
    work_queue.stop()
    assert isinstance(*taken(computed, 1), QueueClosed)
    assert isinstance(*taken(waits, 1), QueueClosed)
    gate.open()
    work_queue.close()
    assert computed.empty()  # whoever waited may be gone
    with pytest.raises(QueueClosed):
        submit(work_queue, "work", ["b"])

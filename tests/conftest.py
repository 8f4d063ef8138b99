"""Seeds, markers and options that every test shares."""

import gc
import inspect
import os
import pathlib
import tempfile

# Before TensorFlow is imported: its notes about CPU and CUDA say nothing of a test.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Only their own tests make graphs in the background.
os.environ["KERAS_TRANSFORMER_ENGINE"] = "own"
# Graphs make garbage by the hundred thousand. The old objects are never looked through: there is
# next to no garbage among them, and a machine that has put their memory aside takes a minute.
gc.set_threshold(100_000, 20, 1000)

import keras  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

TESTS = pathlib.Path(__file__).parent
# No test measures time, on machines that others use too.
settings.register_profile("slow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow")
# What takes long, and first of it a file whose exports others wait for.
LONG = ["test_litert.py", "smoke", "recipes", "training", "translation_training", "export", "pages"]
# What runs on every backend: ranks 0 to 3 of the import order (see test_architecture.py).
CORE = {"layers", "losses", "metrics", "schedules", "optimizers", "decoding", "models", "interop"}
SOME_CORE = {"inference", "interpretation"}  # mark those tests themselves
if keras.backend.backend() != "torch":
    SOME_CORE.add("fuzz")  # it runs commands, which PyTorch has none of


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked `slow` too")
    parser.addoption("--flips", type=int, default=3, help="bits flipped in each file (default 3)")
    parser.addoption("--cases", type=int, default=500, help="of the fuzzer (default 500)")
    parser.addoption("--kills", type=int, default=20, help="of a training (default 20)")
    parser.addoption("--lines", type=int, default=20_000, help="on a cluster (default 20000)")
    parser.addoption("--seed", type=int, default=1, help="of the tests' random numbers (default 1)")


def pytest_configure(config):
    # Compiled programs are kept, but not in the cache of whoever runs the tests.
    config._cache_home = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = config._cache_home.name
    config.addinivalue_line("markers", "core: runs on every backend (set by the test's folder)")
    config.addinivalue_line("markers", "tensorflow: needs the TensorFlow backend")
    config.addinivalue_line("markers", "commands: runs commands, which need TensorFlow or JAX")
    config.addinivalue_line("markers", "slow: no part of `make test`; runs with --full")
    if keras.backend.backend() == "tensorflow":
        from tensorflow.python import pywrap_tfe

        # A seed would have every graph made ready again, for the sake of random operations that
        # keep a state: Keras has none.
        pywrap_tfe.TFE_ContextClearCaches = lambda handle: None
    if keras.backend.backend() == "torch":
        import torch

        # NumPy reads tensors as on other backends: no test has to detach what has a gradient or
        # to cast bfloat16. Sums with arrays, which would lose the gradient then, are refused.
        as_array = torch.Tensor.__array__

        def read(tensor, dtype=None, copy=None):
            tensor = tensor.detach()
            return as_array(tensor.float() if tensor.dtype == torch.bfloat16 else tensor, dtype)

        torch.Tensor.__array__ = read
        torch.Tensor.__array_ufunc__ = None


def pytest_ignore_collect(collection_path, config):
    """Import no file of tests that the run of another backend would leave out."""
    parts = collection_path.relative_to(TESTS).parts if TESTS in collection_path.parents else ()
    if config.option.markexpr == "core" and parts and collection_path.is_dir():
        return True if parts[0] not in CORE | SOME_CORE else None
    return None


def pytest_unconfigure(config):
    config._cache_home.cleanup()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in the package alone: tests have none."""
    collectors = yield
    return [one for one in collectors if type(one) is pytest.Module]


def pytest_collection_modifyitems(config, items):
    # The files of a process come in this order: none that takes long is left for the end.
    items.sort(key=lambda item: [name not in item.path.parts for name in LONG])
    # TensorFlow 2.21 crashes in products of bfloat16 if the CPU could do more than it may.
    crashes = keras.backend.backend() == "tensorflow" and "ONEDNN_MAX_CPU_ISA" in os.environ
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in CORE:
            item.add_marker("core")
        if item.get_closest_marker("slow") and not config.getoption("--full"):
            item.add_marker(pytest.mark.skip(reason="slow: run by `make test-full`"))
        if item.get_closest_marker("tensorflow") and keras.backend.backend() != "tensorflow":
            item.add_marker(pytest.mark.skip(reason="needs the TensorFlow backend"))
        if item.get_closest_marker("commands") and keras.backend.backend() == "torch":
            item.add_marker(pytest.mark.skip(reason="commands need TensorFlow or JAX"))
        is_test = isinstance(item, pytest.Function)  # not an example of the package's
        if crashes and is_test and "bfloat16" in inspect.getsource(item.function):
            item.add_marker(pytest.mark.skip(reason="ONEDNN_MAX_CPU_ISA breaks bfloat16"))


def pytest_collection_finish():
    """Spare the collector what lives to the end."""
    gc.freeze()


def pytest_sessionfinish():
    """Leave to the end of the process what is left; pytest would look through it five times."""
    gc.freeze()


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory, worker_id):
    """The path of a run that translates digits; all workers share it: read it, change nothing."""
    from tests.small_trained_run import small_trained_run

    base = tmp_path_factory.getbasetemp()
    return small_trained_run((base if worker_id == "master" else base.parent) / "small_trained_run")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed what fixtures of a wider scope draw, which are made before those of a test."""
    seed = item.config.getoption("--seed")
    keras.utils.set_random_seed(seed)
    item.add_report_section("setup", "random numbers", f"repeated by --seed {seed}")


@pytest.fixture
def random_seed(request):
    """The seed to give to random generators and processes of a test; a failure prints it."""
    return request.config.getoption("--seed")


@pytest.fixture
def no_garbage_collection():
    """Nothing is finalised in the depth of a recursion, where that would fail."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def fixed_seed(random_seed):
    """Every test starts from the same random numbers, whatever ran before it."""
    keras.utils.set_random_seed(random_seed)

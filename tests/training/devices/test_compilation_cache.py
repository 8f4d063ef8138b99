"""What XLA has compiled is found again by the next program."""

import pytest

from tests.python_programs import run_python

PROGRAM = """
import keras
from keras import ops
from keras_transformer.training.devices.device_start import keep_compiled_programs
print(keep_compiled_programs())
model = keras.Sequential([keras.Input((8, 8)), keras.layers.GRU(4), keras.layers.Dense(8)])
model.compile("adam", "mse", jit_compile=True)
model.fit(ops.ones((4, 8, 8)), ops.ones((4, 8)), verbose=0)
"""
KEPT = {"jax": "jit_train_step*-cache", "tensorflow": "xla_compile_cache_*.pb"}
OF_THE_USER = {
    "jax": ("JAX_COMPILATION_CACHE_DIR", "{}"),
    "tensorflow": ("TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory={}"),
}


def run(backend, home, **variables):
    variables = {"KERAS_BACKEND": backend, "XDG_CACHE_HOME": str(home), **variables}
    # However quickly this small one is compiled.
    variables = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", **variables}
    return run_python("-c", PROGRAM, **variables)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_programs_are_kept_and_the_folder_is_said_once(tmp_path, backend):
    first = run(backend, tmp_path)
    (folder,) = (tmp_path / "keras_transformer" / "compiled").iterdir()
    assert first.stdout == f"{folder}\n"
    assert f"Keeping XLA's compiled programs in {folder}\n" in first.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in folder.glob(KEPT[backend])}
    assert kept
    second = run(backend, tmp_path)
    assert "What XLA compiles" not in second.stderr
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob(KEPT[backend])} == kept


DAMAGES = {"empty": lambda _: b"", "cut": lambda c: c[: len(c) // 2], "others": lambda _: b"text"}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_damaged_program_is_compiled_anew(tmp_path, backend, damage):
    run(backend, tmp_path)
    (folder,) = (tmp_path / "keras_transformer" / "compiled").iterdir()
    paths = [path for path in folder.glob(KEPT[backend]) if path.is_file()]
    assert paths
    for path in paths:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert run(backend, tmp_path).stdout == f"{folder}\n"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_folder_of_the_user_s_own_is_left_as_it_is(tmp_path, backend):
    name, value = OF_THE_USER[backend]
    (tmp_path / "own").mkdir()
    done = run(backend, tmp_path / "home", **{name: value.format(tmp_path / "own")})
    assert done.stdout == "None\n"
    assert not (tmp_path / "home" / "keras_transformer").exists()
    assert list((tmp_path / "own").glob(KEPT[backend]))


@pytest.mark.slow
def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "home").write_text("a file")
    done = run("jax", tmp_path / "home")
    assert done.stdout == "None\n"

"""Commands that write a run or an export are killed at file operations: it is whole, or not there.

Afterwards, the command does its work, and what the killed ones have left is gone.
"""

import random
import shutil
import signal

import pytest

from keras_transformer.files import PARTIAL_DIRECTORY
from tests.forked_processes import ForkServer
from tests.interop.marian_folders import write_hugging_face

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]
COMMANDS = {
    "import marian": ["import", "marian", "HERE/opus", "HERE/made"],
    "export marian": ["export", "marian", "HERE/imported", "HERE/made"],
    "export saved-model": ["export", "saved-model", "HERE/run", "HERE/made"],
    "average": ["average", "HERE/run", "--last", "2"],
}


@pytest.fixture(scope="module")
def server():
    server = ForkServer("tests.kills.killed_commands", "tensorflow")
    yield server
    server.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_all_or_nothing(
    server, trained_run, tmp_path, name, random_seed, pytestconfig
):
    shutil.copytree(trained_run, tmp_path / "run")
    (tmp_path / "opus").mkdir()
    write_hugging_face(tmp_path / "opus")
    imported = ["import", "marian", str(tmp_path / "opus"), str(tmp_path / "imported")]
    assert server.run(arguments=imported)[0] == 0
    made = tmp_path / ("run" if name == "average" else "made")

    def run(kill=None):
        if made.name == "made":
            shutil.rmtree(made, ignore_errors=True)
        words = [word.replace("HERE", str(tmp_path)) for word in COMMANDS[name]]
        code, errors, operations = server.run(arguments=words, kill=kill)
        assert code in (0, -signal.SIGKILL), errors
        # The settings of a model server precede the first version of a SavedModel.
        if any(path.name[0] != "." and path.suffix != ".config" for path in made.glob("*")):
            checked, errors, _ = server.run(arguments=["check", str(made)])
            assert checked == 0, (kill, errors)
        return code, operations

    code, operations = run()
    assert code == 0
    most = min(pytestconfig.getoption("--kills"), operations)
    for moment in random.Random(random_seed).sample(range(1, operations + 1), most):
        code, _ = run(kill=moment)
        assert code == -signal.SIGKILL
        print(f"{name} killed at operation {moment} of {operations}: made {made.exists()}")
    code, _ = run()
    assert code == 0
    assert not [*tmp_path.glob(f"{PARTIAL_DIRECTORY}*"), *made.glob(f"{PARTIAL_DIRECTORY}*")]

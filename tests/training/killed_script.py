"""A user's own script in forks that are killed; a job has its `path`, beside its data."""

import os
import pathlib
import runpy

from keras_transformer.installation import start_backend_quietly
from tests.forked_processes import serve


def run(path):
    os.chdir(pathlib.Path(path).parent)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as exit:
        return exit.code or 0
    return 0


if __name__ == "__main__":
    start_backend_quietly(devices=False)
    import keras_transformer.training  # noqa: F401 (imported once for all)

    serve(run)

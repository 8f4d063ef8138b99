"""What the tests of clients and servers share: one exported model."""

import pytest


class Pauses(list):
    """A clock that stands still but for the pauses, which it keeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.append(seconds)
        self.now += seconds


@pytest.fixture
def pauses(monkeypatch):
    """The pauses of clients, which take no time."""
    clock = Pauses()
    monkeypatch.setattr("keras_transformer.toolkit.serving.served_model.time", clock)
    return clock


@pytest.fixture(scope="session")
def exported_model(trained_run, tmp_path_factory, worker_id):
    """The path `saved_models/NAME` of the exported `trained_run`; all workers share it."""
    from keras_transformer import Translator
    from keras_transformer.export import export_saved_model
    from keras_transformer.files import file_lock

    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "exported_model"
    with file_lock(directory.with_suffix(".lock")):
        if not (directory / "1").exists():
            export_saved_model(Translator.load(trained_run), directory)
    return directory


@pytest.fixture(scope="session")
def loaded_model(exported_model):
    """Its versions as `Servable`s, which several servers of tests may hold."""
    from tests.serving.servers.servables import load_versions

    return load_versions(exported_model)


@pytest.fixture(scope="module")
def server(loaded_model):
    from tests.serving.servers.model_servers import ModelServer

    with ModelServer({"en_de": loaded_model}) as server:
        yield server

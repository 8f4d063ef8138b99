"""What the tests of clients and servers share: one exported model."""

import pytest


@pytest.fixture(scope="session")
def exported_model(trained_run, tmp_path_factory, worker_id):
    """The path `saved_models/NAME` of the exported `trained_run`; all workers share it."""
    from keras_transformer import Translator
    from keras_transformer.export import export_saved_model
    from keras_transformer.files.file_lock import file_lock

    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "exported_model"
    with file_lock(directory.with_suffix(".lock"), on_wait=lambda: None):
        if not (directory / "1").exists():
            export_saved_model(Translator.load(trained_run), directory)
    return directory


@pytest.fixture(scope="session")
def loaded_model(exported_model):
    """Its versions as `Servable`s, which several servers of tests may hold."""
    from tests.serving.servables import load_versions

    return load_versions(exported_model)

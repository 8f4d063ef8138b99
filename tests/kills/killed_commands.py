"""`keras-transformer` in forks that are killed; a job has `arguments`, those of the command."""

from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli import main
from tests.forked_processes import serve

if __name__ == "__main__":
    start_backend_quietly(devices=False)
    from keras_transformer import translation_training  # noqa: F401 (imported once for all)

    serve(main)

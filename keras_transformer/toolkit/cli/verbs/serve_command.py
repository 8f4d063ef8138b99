"""`keras-transformer serve`: serve an exported model with TensorFlow's model server."""

import argparse
import os
import shlex

from keras_transformer.argument_checks import int_from_zero, positive_int, positive_number
from keras_transformer.errors import UserInputError
from keras_transformer.files import note, tell
from keras_transformer.runs.checksums import CHECKSUMS
from keras_transformer.toolkit.cli.program import warn_of_reach
from keras_transformer.toolkit.serving import model_server
from keras_transformer.toolkit.serving.model_server import ExportedModel, ServerOptions

HELP = "serve an exported model with tensorflow_model_server or its Docker image"
DESCRIPTION = """Start tensorflow_model_server on the newest version of an exported model. If the
program is not on the PATH, the Docker image tensorflow/serving is used instead. New versions are
served as they appear, until Ctrl-C. The server listens on all network interfaces, without
passwords or encryption: only your own proxy should be able to reach it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add = parser.add_argument
    add("directory", metavar="DIRECTORY", help="directory of an exported model: saved_models/NAME")
    add("--name", metavar="NAME", help="the model's name for clients (default: the directory's)")
    defaults = ServerOptions()
    add(
        "--port",
        type=positive_int,
        default=defaults.port,
        metavar="N",
        help=f"port for gRPC (default: {defaults.port})",
    )
    add(
        "--rest-port",
        type=int_from_zero,
        default=defaults.rest_port,
        metavar="N",
        help=f"port for REST (default: {defaults.rest_port}; 0: no REST)",
    )
    add(
        "--timeout",
        type=positive_number,
        default=defaults.timeout,
        metavar="SECONDS",
        help=f"longest time for a REST request (default: {defaults.timeout:g})",
    )
    add(
        "--threads",
        type=positive_int,
        metavar="N",
        help="threads of TensorFlow (default: from the number of CPUs)",
    )
    add(
        "--no-batching",
        action="store_true",
        help="run every request by itself; by default, requests that arrive together run together, "
        "as the model's batching.config says",
    )
    add(
        "--docker",
        action="store_true",
        help="use the Docker image even if the program is installed",
    )
    add(
        "--image",
        metavar="IMAGE",
        help=f"the Docker image to use; implies --docker (default: {model_server.IMAGE})",
    )
    add(
        "--print",
        action="store_true",
        dest="only_print",
        help="print the command that starts the server, for a service file or a container; start "
        "nothing",
    )


def serve(values: argparse.Namespace) -> None:
    """Run the verb."""
    model = ExportedModel(values.directory, values.name)
    if not model.check_files():
        tell(f"warning: {model.newest} has no {CHECKSUMS}: nothing was compared.")
    settings = ServerOptions(
        port=values.port,
        rest_port=values.rest_port,
        batching=not values.no_batching,
        timeout=values.timeout,
        threads=values.threads,
    )
    with_docker = values.docker or values.image is not None
    if _takes_docker(with_docker, elsewhere=values.only_print):
        command = model.docker_command(settings, values.image or model_server.IMAGE)
    else:
        command = model.server_command(settings)
    if values.only_print:
        print(shlex.join(command))
        return
    model_server.check_ports(settings)
    note(_greeting(model, settings))
    warn_of_reach("the server, which listens on all network interfaces")
    os.execvp(command[0], command)  # signals and the exit code are the server's


def _takes_docker(asked_for: bool, *, elsewhere: bool) -> bool:
    """Whether Docker starts the server.

    `elsewhere` means on another machine, which may have Docker or the program.
    """
    if asked_for:
        if not elsewhere and not model_server.has_docker():
            raise UserInputError("No Docker daemon answers: install Docker, or start it.")
        return True
    if model_server.has_server():
        return False
    if model_server.has_docker():
        return True
    if not elsewhere:
        raise UserInputError(model_server.HOW_TO_GET_IT)
    return False


def _greeting(model: ExportedModel, settings: ServerOptions) -> str:
    places = f"gRPC on port {settings.port}"
    if settings.rest_port:
        url = f"http://localhost:{settings.rest_port}/v1/models/{model.name}"
        places = f"REST at {url}, {places}"
    return f"Serving {model.name}, version {model.versions[-1]}: {places}"

"""`keras-transformer serve`: serve an exported model with TensorFlow's model server."""

import argparse
import dataclasses
import os
import shlex

from keras_transformer.argument_checks import int_from_zero, positive_int, positive_number
from keras_transformer.errors import UserInputError
from keras_transformer.files import note, tell
from keras_transformer.runs.checksums import CHECKSUMS
from keras_transformer.toolkit.cli.program import add_flags, flag, options_of, warn_of_reach
from keras_transformer.toolkit.serving import model_server
from keras_transformer.toolkit.serving.model_server import ExportedModel, ServerOptions

HELP = "serve an exported model with tensorflow_model_server or its Docker image"
DESCRIPTION = """Start tensorflow_model_server with the newest version of an exported model. If the
program is not on the PATH, the Docker image tensorflow/serving is used instead. The server picks up
new versions as they appear; Ctrl-C stops it. It listens on all network interfaces, without
passwords or encryption: only your own proxy should be able to reach it."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    name: str | None = flag(
        "name of the model for clients (default: the name of the directory)", metavar="NAME"
    )
    port: int = flag(
        f"port for gRPC (default: {ServerOptions.port})", ServerOptions.port, type=positive_int
    )
    rest_port: int = flag(
        f"port for REST (default: {ServerOptions.rest_port}; 0: no REST)",
        ServerOptions.rest_port,
        type=int_from_zero,
    )
    timeout: float = flag(
        f"timeout of a REST request (default: {ServerOptions.timeout:g})",
        ServerOptions.timeout,
        type=positive_number,
        metavar="SECONDS",
    )
    threads: int | None = flag(
        "number of TensorFlow threads (default: depends on the number of CPUs)", type=positive_int
    )
    no_batching: bool = flag(
        "run every request separately; by default, requests that arrive together run in one batch, "
        "as configured in the model's batching.config",
        False,
    )
    docker: bool = flag("use the Docker image even if the program is installed", False)
    image: str | None = flag(
        f"Docker image to use; implies --docker (default: {model_server.IMAGE})",
        metavar="IMAGE",
    )
    print: bool = flag(
        "print the command that starts the server, for a service file or a container, without "
        "starting it",
        False,
        dest="only_print",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    help_text = "directory of an exported model, such as exports/NAME"
    parser.add_argument("directory", metavar="DIRECTORY", help=help_text)
    add_flags(parser, _Flags)


def serve(values: argparse.Namespace) -> None:
    """Run the verb."""
    model = ExportedModel(values.directory, values.name)
    if not model.check_files():
        tell(f"warning: {model.newest} has no {CHECKSUMS}: nothing was compared.")
    settings = options_of(ServerOptions, values, batching=not values.no_batching)
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
    os.execvp(command[0], command)  # the server handles signals and the exit code


def _takes_docker(asked_for: bool, *, elsewhere: bool) -> bool:
    """Return whether to start the server with Docker.

    `elsewhere` means that the server runs on another machine, which may have Docker or the program.
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

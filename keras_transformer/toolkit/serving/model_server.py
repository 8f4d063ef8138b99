"""Commands that start TensorFlow's model server for an exported model, with or without Docker."""

import csv
import dataclasses
import io
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from keras_transformer.errors import UserInputError, refuse
from keras_transformer.formats.registry import check_export, kind_of_export
from keras_transformer.toolkit.serving.connection import MOST_SECONDS
from keras_transformer.types import PathLike

BINARY = "tensorflow_model_server"
IMAGE = "tensorflow/serving"
HOW_TO_GET_IT = (
    f"`{BINARY}` is not on the PATH, and no Docker daemon answers: install the package "
    "tensorflow-model-server (https://www.tensorflow.org/tfx/serving/setup), or Docker, which "
    f"downloads the image {IMAGE} automatically. Without either, `keras-transformer app RUN` "
    "serves the run itself, with a web page and a JSON interface."
)


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of a model server, except the model itself.

    A `rest_port` of 0 disables REST. `timeout` is the maximum number of seconds for a REST request.
    `threads` is the number of threads per operation and of concurrent operations; None lets the
    server decide.
    """

    port: int = 8500
    rest_port: int = 8501
    batching: bool = True
    timeout: float = 30.0
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("port", 1), ("rest_port", 0)):
            if not least <= getattr(self, name) <= 65535:
                refuse(name, f"be a number from {least} to 65535", getattr(self, name))
        if not 0.001 <= self.timeout <= MOST_SECONDS:
            rule = f"be a number of seconds from 0.001 to {MOST_SECONDS}, a day"
            refuse("timeout", rule, self.timeout)
        if self.port == self.rest_port:
            refuse("port", "be different from `rest_port`", self.port, rest_port=self.rest_port)


class ExportedModel:
    """An exported model and the name that clients use to request it.

    The directory is the one passed to `export_saved_model`. Its name is the default for `name`.

    Example:

    ```python
    model = ExportedModel("exports/en_de")
    model.name, model.versions  # ("en_de", [1, 2])
    ```
    """

    def __init__(self, directory: PathLike, name: str | None = None) -> None:
        self.directory = Path(os.path.abspath(directory))
        self.versions = versions(directory)
        if not self.versions:
            raise UserInputError(_no_version(self.directory))
        self.name = self.directory.name if name is None else name
        is_name = re.fullmatch(r"[\w.-]+", self.name, re.ASCII)
        if not is_name or self.name in (".", ".."):
            rule = (
                "be letters, digits, `_`, `-` and `.` only: set a name other than the directory's"
            )
            refuse("name", rule, self.name)

    @property
    def newest(self) -> Path:
        """Path of the newest version, which is the version served."""
        return self.directory / str(self.versions[-1])

    def check_files(self) -> int:
        """Check the newest version's files against their checksums and return the number of files.

        Returns 0 for a version without checksums.
        """
        return check_export(self.newest)

    def server_command(self, options: ServerOptions) -> list[str]:
        """Return the command that starts `tensorflow_model_server`.

        Reference: https://www.tensorflow.org/tfx/serving/serving_config
        """
        return [BINARY, *self._flags(options, self.directory)]

    def docker_command(self, options: ServerOptions, image: str = IMAGE) -> list[str]:
        """Return the command that starts the model server in a Docker image.

        Reference: https://www.tensorflow.org/tfx/serving/docker
        """
        inside = Path("/models") / self.name
        mount = io.StringIO()  # Docker parses this as CSV, so paths may contain commas
        csv.writer(mount, lineterminator="").writerow(
            ["type=bind", f"source={self.directory}", f"target={inside}", "readonly"]
        )
        defaults = ServerOptions()
        ports = [(options.port, defaults.port)]
        if options.rest_port:
            ports.append((options.rest_port, defaults.rest_port))
        options = dataclasses.replace(
            options,
            port=defaults.port,
            rest_port=defaults.rest_port if options.rest_port else 0,
        )
        return [
            *("docker", "run", "--rm"),
            "--init",  # otherwise, the server is process 1, which ignores Ctrl-C
            *(f"--publish={outside}:{port}" for outside, port in ports),
            f"--mount={mount.getvalue()}",
            f"--entrypoint={BINARY}",
            image,
            *self._flags(options, inside),
        ]

    def _flags(self, options: ServerOptions, directory: Path) -> list[str]:
        from keras_transformer.formats.saved_model.reader import BATCHING_CONFIG  # imports NumPy

        flags = [
            f"--port={options.port}",
            f"--rest_api_port={options.rest_port}",
            f"--rest_api_timeout_in_ms={round(1000 * options.timeout)}",
            f"--model_name={self.name}",
            f"--model_base_path={directory}",
        ]
        if options.batching:
            flags.append("--enable_batching=true")
            if (self.directory / BATCHING_CONFIG).is_file():
                flags.append(f"--batching_parameters_file={directory / BATCHING_CONFIG}")
        if options.threads is not None:
            flags.append(f"--tensorflow_session_parallelism={options.threads}")
        return flags


def versions(directory: PathLike) -> list[int]:
    """Return the sorted versions of an exported model. The model server serves the last one."""
    found = Path(directory).glob("*/saved_model.pb")
    names = (path.parent.name for path in found)
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def has_server() -> bool:
    """Return whether `tensorflow_model_server` is on the PATH."""
    return shutil.which(BINARY) is not None


def has_docker() -> bool:
    """Return whether Docker is installed and its daemon responds."""
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def check_ports(options: ServerOptions) -> None:
    """Refuse ports that another program is using.

    The server would silently share its gRPC port with another server and continue without its REST
    port.
    """
    for flag, port in (("--port", options.port), ("--rest-port", options.rest_port)):
        if port == 0:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise UserInputError(
                    f"Port {port} cannot be used ({error.strerror}): choose another with `{flag}`."
                ) from error


def _no_version(directory: Path) -> str:
    if (directory / "saved_model.pb").is_file():
        return f"{directory} is one version of a model: pass the directory above it."
    export = "keras-transformer export saved-model"
    if (directory / "run.json").is_file():
        return (
            f"{directory} is a run, not an export. Export it: {export} {directory} "
            f"exports/{directory.name}, or serve it: keras-transformer app {directory}"
        )
    if not directory.is_dir():
        return f"The directory {directory} does not exist. Export one: {export} RUN {directory}"
    # Do not export to a directory with other contents.
    free = f"{directory}_saved_model" if any(directory.iterdir()) else directory
    kind = kind_of_export(directory)
    fault = f"contains a {kind}, not" if kind else "contains no version of"
    return f"The directory {directory} {fault} a SavedModel. Export one: {export} RUN {free}"

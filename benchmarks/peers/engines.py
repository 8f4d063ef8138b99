"""The engines: programs with a precision and an environment."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Literal

from benchmarks.peers.rows import Row, Task
from keras_transformer.errors import UserInputError

# Engines measured by `--gpu`. On a GPU, XLA compiles decoding on TensorFlow and JAX.
GPU_ENGINES = (
    "keras_transformer-bfloat16",
    "keras_transformer_jax-bfloat16",
    "huggingface-bfloat16",
)

# Without these settings, glibc returns memory to the system at every step and requests it again,
# page by page. Programs that allocate large tensors then run at as little as half the speed.
# TensorFlow's speed is unaffected.
KEPT_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}

ForcedLengths = Literal["sentence", "batch", "export"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """A program in one precision.

    Args:
        program: name of the program.
        precision: number format for matrix products.
        worker: module in `benchmarks.peers.workers` that runs the program.
        packages: distributions whose versions are recorded; the first one is required.
        task: task that the engine runs.
        is_peer: whether this is another program, which runs in the peers' environment.
        export: type of export that the engine reads; None if it builds the model itself.
        forces: level at which output lengths can be forced: each sentence, each batch, or the
            export. All outputs of an export have the same number of tokens beyond their source.
        backend: value of KERAS_BACKEND.
        on_demand: whether the engine runs only if its name is given.
    """

    program: str
    precision: str
    worker: str
    packages: tuple[str, ...]
    task: Task = "search"
    is_peer: bool = False
    export: str | None = None
    forces: ForcedLengths = "sentence"
    backend: str = "tensorflow"
    on_demand: bool = False

    @property
    def name(self) -> str:
        """The name in tables, files and `--engines`, without the task."""
        return f"{self.program}-{self.precision}"

    def environment(self, threads: int, row: Row) -> dict[str, str]:
        """Return the environment variables for the engine's process."""
        number = str(threads)
        has_many_batches = row.task == "search" and row.num_batches > 1
        # Pin each thread to a core. With fewer threads than cores, only the first cores would be
        # used. TensorFlow, JAX and parallel batches do not use OpenMP's threads, so all of their
        # threads would be pinned to one core.
        all_cores = threads == len(os.sched_getaffinity(0))
        is_openmp = self.worker.split("_")[0] in ("ctranslate2", "huggingface", "torch")
        binds = all_cores and is_openmp and not has_many_batches
        return {
            "OMP_NUM_THREADS": number,
            "OMP_PROC_BIND": str(binds).lower(),
            "TF_NUM_INTRAOP_THREADS": "1" if has_many_batches else number,
            "TF_NUM_INTEROP_THREADS": number,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "KERAS_BACKEND": self.backend,
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            # Idle engines must not reserve GPU memory that they do not use.
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **KEPT_MEMORY,
        }

    def reason_to_skip(self, row: Row) -> str | None:
        """Return the reason why the engine cannot run a row of its task, or None."""
        if self.forces != "export":
            return None
        if row.corpus != "random":
            return "an export cannot force the length of each sentence"
        if row.name.startswith("growth"):
            return "it would need an export for each point"
        return None


def _engines(precisions: Sequence[str], **fields: object) -> list[Engine]:
    return [Engine(precision=precision, **fields) for precision in precisions]  # type: ignore[arg-type]


_OURS = {"packages": ("tensorflow", "keras", "numpy")}
_ON_JAX = {"packages": ("jax", "keras", "numpy"), "backend": "jax", "on_demand": True}
_PRECISIONS = ("float32", "mixed_bfloat16")

ENGINES = (
    *_engines(_PRECISIONS, program="keras_transformer", worker="own_search", **_OURS),
    *_engines(
        ("bfloat16",), program="keras_transformer", worker="own_search", on_demand=True, **_OURS
    ),
    *_engines(
        (*_PRECISIONS, "bfloat16"), program="keras_transformer_jax", worker="own_search", **_ON_JAX
    ),
    *_engines(
        ("float32", "bfloat16"),
        program="saved_model",
        worker="saved_model_search",
        packages=("tensorflow", "tensorflow-text"),
        export="saved_model",
        forces="export",
    ),
    *_engines(
        ("float32", "int8"),
        program="litert",
        worker="litert_search",
        packages=("ai-edge-litert",),
        export="litert",
        forces="export",
    ),
    *_engines(
        ("float32", "int8"),
        program="ctranslate2_export",
        worker="ctranslate2_search",
        packages=("ctranslate2",),
        export="ctranslate2",
        forces="batch",
    ),
    *_engines(
        ("float32", "bfloat16"),
        program="huggingface",
        worker="huggingface_search",
        packages=("transformers", "torch"),
        is_peer=True,
    ),
    *_engines(
        ("float32", "int8"),
        program="ctranslate2",
        worker="ctranslate2_search",
        packages=("ctranslate2",),
        is_peer=True,
        export="marian",
        forces="batch",
    ),
    *_engines(
        _PRECISIONS, program="keras_transformer", worker="own_training", task="training", **_OURS
    ),
    *_engines(
        _PRECISIONS,
        program="keras_transformer_jax",
        worker="own_training",
        task="training",
        **_ON_JAX,
    ),
    *_engines(
        ("float32", "bfloat16"),
        program="torch",
        worker="torch_training",
        packages=("torch",),
        task="training",
        is_peer=True,
    ),
    *_engines(
        _PRECISIONS,
        program="keras_hub",
        worker="keras_hub_training",
        packages=("keras-hub", "keras", "tensorflow"),
        task="training",
        is_peer=True,
    ),
)


def chosen_engines(names: Sequence[str] | None) -> list[Engine]:
    """Return these engines in the order of `ENGINES`. None selects all except those on demand.

    Args:
        names: names of engines, or of programs to select all of their precisions.

    Raises:
        UserInputError: an unknown name.
    """
    if names is None:
        return [engine for engine in ENGINES if not engine.on_demand]
    for name in names:
        if all(name not in (engine.name, engine.program) for engine in ENGINES):
            known = ", ".join(dict.fromkeys(engine.name for engine in ENGINES))
            raise UserInputError(f"--engines must be among {known}. Received: {name}")
    return [engine for engine in ENGINES if {engine.name, engine.program}.intersection(names)]

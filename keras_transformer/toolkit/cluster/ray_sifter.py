"""Corpus tokenization and filtering on a Ray cluster."""

import functools
from collections.abc import Iterator
from typing import Any

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.data.corpus_preparation import (
    Chunk,
    KeptPairs,
    PairSifter,
    chunks,
    progress_bar,
)
from keras_transformer.data.pair_filters import PairFilters
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cluster.ray_start import (
    LOCAL,
    found_by,
    given,
    ordered_rows,
    ray_cluster,
    told_by_ray,
)


class RaySifter:
    """A `sift` for `data.prepare_corpus` that runs on a Ray cluster.

    Chunks of pairs are sent to any free worker and returned in order, so the corpus is identical
    byte for byte. One worker on this machine reads the text and finds duplicate pairs by their
    hashes; this process writes the corpus. If a sifter is called in a worker, such as during
    training, its tasks need CPUs in addition to the CPUs reserved by the workers.

    Args:
        address: address of the cluster, as in `ray_cluster`.
        window: maximum number of chunks in flight. None means two per CPU in the cluster.

    Example:

    ```python
    text = data.ParallelFiles("web/*.en.gz", "web/*.de.gz")
    filters = data.PairFilters(duplicates=True)
    data.prepare_corpus(text, tokenizer, "prepared", filters=filters, sift=RaySifter("auto"))
    ```
    """

    def __init__(self, address: str = LOCAL, window: int | None = None) -> None:
        if window is not None:
            check_positive_int("window", window)
        self.address = address
        self.window = window

    def __call__(self, text: ParallelText, sifter: PairSifter) -> Iterator[KeptPairs]:
        """Yield the kept pairs of a text in order."""
        with (
            ray_cluster(self.address) as ray,
            told_by_ray(ray, f"Tasks of the Ray cluster that prepare {text.name}"),
        ):
            from ray.data import TaskPoolStrategy

            context = ray.get_runtime_context()
            cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
            in_worker = context.get_actor_id() is not None
            window = self.window or (cpus if in_worker else 2 * cpus)
            read = functools.partial(_read, text, sifter.filters)
            here = {"ray.io/node-id": context.get_node_id()}
            kept = (
                ordered_rows([0])
                .flat_map(read, num_cpus=0, label_selector=here)
                .map(
                    functools.partial(_sifted, sifter),
                    num_cpus=0 if in_worker else 1,
                    compute=TaskPoolStrategy(size=window),
                )
            )
            with progress_bar(text) as progress:
                for row in kept.iter_rows():
                    found: KeptPairs = given(row["kept"])
                    yield found
                    progress.update(len(found.numbers) + sum(found.dropped.values()))


def _read(text: ParallelText, filters: PairFilters, row: object) -> Iterator[dict[str, Any]]:
    try:
        for chunk in chunks(text, filters):
            yield {"chunk": chunk}
    except UserInputError as error:  # Ray would wrap it
        yield {"chunk": UserInputError(str(error))}


def _sifted(sifter: PairSifter, row: dict[str, Any]) -> dict[str, Any]:
    return {"kept": found_by(_sift, sifter, row["chunk"])}


def _sift(sifter: PairSifter, chunk: Chunk | UserInputError) -> KeptPairs:
    return sifter.sift(given(chunk))

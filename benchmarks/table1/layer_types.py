"""The layers of the paper's Table 1, with the paper's entries and the reach of each layer."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes shared by all layers.

    Args:
        batch_size: number of sequences.
        hidden_dim: width of inputs and outputs (the paper's d).
        num_heads: number of attention heads.
        window: odd number of positions visible to restricted attention (r).
        kernel_size: odd number of positions visible to the convolution (k).
    """

    batch_size: int = 1
    hidden_dim: int = 256
    num_heads: int = 4
    window: int = 65
    kernel_size: int = 3


@dataclasses.dataclass(frozen=True)
class LayerType:
    """A row of the table.

    Args:
        name: short name of the layer type.
        title: name in tables and figures.
        complexity: number of operations per layer, as in the paper.
        sequential: number of sequential operations, as in the paper.
        path: maximum path length, as in the paper.
        reach: function that maps the sizes and the length to the number of positions that a signal
            travels in one layer, or in one step of a recurrent layer.
    """

    name: str
    title: str
    complexity: str
    sequential: str
    path: str
    reach: Callable[[Sizes, int], int]

    def maximum_path_length(self, sizes: Sizes, length: int) -> int:
        """Return the number of layers or steps between the first and the last position.

        Example:
            >>> window = next(layer for layer in LAYER_TYPES if layer.name == "windowed")
            >>> window.maximum_path_length(Sizes(window=65), 1024)
            32
        """
        return max(1, -(-(length - 1) // self.reach(sizes, length)))


# Vaswani et al. (2017), Table 1 and section 4. Its log_k(n) applies to dilated kernels.
LAYER_TYPES = (
    LayerType(
        name="full",
        title="full attention",
        complexity="O(n^2 d)",
        sequential="O(1)",
        path="O(1)",
        reach=lambda sizes, length: max(1, length - 1),
    ),
    LayerType(
        name="fused",
        title="fused attention",
        complexity="O(n^2 d)",
        sequential="O(1)",
        path="O(1)",
        reach=lambda sizes, length: max(1, length - 1),
    ),
    LayerType(
        name="windowed",
        title="windowed attention",
        complexity="O(r n d)",
        sequential="O(1)",
        path="O(n/r)",
        reach=lambda sizes, length: (sizes.window - 1) // 2,
    ),
    LayerType(
        name="lstm",
        title="LSTM",
        complexity="O(n d^2)",
        sequential="O(n)",
        path="O(n)",
        reach=lambda sizes, length: 1,
    ),
    LayerType(
        name="convolution",
        title="separable convolution",
        complexity="O(k n d + n d^2)",
        sequential="O(1)",
        path="O(n/k)",
        reach=lambda sizes, length: (sizes.kernel_size - 1) // 2,
    ),
)
NAMES = tuple(layer_type.name for layer_type in LAYER_TYPES)

"""Figure style and training-curve plots."""

from keras_transformer.evaluation.figures import (
    Curve,
    Metric,
    PointLabel,
    RunCurves,
    figure_file,
    figure_style,
    label_points,
    new_figure,
    run_figure,
    short_names,
)

__all__ = [
    "Curve",
    "Metric",
    "PointLabel",
    "RunCurves",
    "figure_file",
    "figure_style",
    "label_points",
    "new_figure",
    "run_figure",
    "short_names",
]

"""Figures: their style, and training curves."""

from keras_transformer.figures.figure_style import figure_file, figure_style, new_figure
from keras_transformer.figures.point_labels import PointLabel, label_points
from keras_transformer.figures.run_curves import Curve, Metric, RunCurves, short_names
from keras_transformer.figures.run_figure import run_figure

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

"""The page that a training leaves in its run directory."""

from keras_transformer.translation_training.report.run_report import write_run_report

__all__ = ["write_run_report"]

"""Training with `model.fit`: a run directory, callbacks, devices and checkpoints."""

from keras_transformer.evaluation.step_work import DeviceSpeed, StepWork, TransformerFlops
from keras_transformer.evaluation.training_cost import cost_table, training_cost
from keras_transformer.runs.model_weights import load_weights
from keras_transformer.training.callbacks.bleu_validation import BleuValidation
from keras_transformer.training.callbacks.layer_diagnostics import LayerDiagnostics
from keras_transformer.training.callbacks.metrics_log import (
    CompiledShapes,
    MetricsLog,
    ProgressBar,
    TensorBoardLog,
    ValidationLog,
)
from keras_transformer.training.callbacks.step_callback import EMAWeights
from keras_transformer.training.callbacks.training_limits import (
    StepLimit,
    StopOnInterrupt,
    StopOnNaN,
    StopOnPlateau,
    TimeLimit,
)
from keras_transformer.training.checkpoints.checkpoints import (
    Checkpoints,
    average_best,
    average_checkpoints,
)
from keras_transformer.training.devices.device_start import make_reproducible, start_devices
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.fine_tuning import enable_lora, freeze
from keras_transformer.training.fit_callbacks import FitRecord
from keras_transformer.training.training_command import TrainingCommand, add_training_arguments
from keras_transformer.training.training_model import ProbeRecord, probe, training_model
from keras_transformer.training.training_options import TrainingKeywords, TrainingOptions
from keras_transformer.training.training_run import TrainingRun
from keras_transformer.training.training_settings import TrainingSettings

__all__ = [
    "BleuValidation",
    "Checkpoints",
    "CompiledShapes",
    "DeviceSpeed",
    "Devices",
    "EMAWeights",
    "FitRecord",
    "LayerDiagnostics",
    "MetricsLog",
    "ProbeRecord",
    "ProgressBar",
    "StepLimit",
    "StepWork",
    "StopOnInterrupt",
    "StopOnNaN",
    "StopOnPlateau",
    "TensorBoardLog",
    "TimeLimit",
    "TrainingCommand",
    "TrainingKeywords",
    "TrainingOptions",
    "TrainingRun",
    "TrainingSettings",
    "TransformerFlops",
    "ValidationLog",
    "add_training_arguments",
    "average_best",
    "average_checkpoints",
    "cost_table",
    "enable_lora",
    "freeze",
    "load_weights",
    "make_reproducible",
    "probe",
    "start_devices",
    "training_cost",
    "training_model",
]

"""Training with `model.fit`: run directory, callbacks, devices and checkpoints.

Names are imported on first use, because training flags are parsed without Keras.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.evaluation.step_work import DeviceSpeed as DeviceSpeed
    from keras_transformer.evaluation.step_work import StepWork as StepWork
    from keras_transformer.evaluation.step_work import TransformerFlops as TransformerFlops
    from keras_transformer.evaluation.training_cost import cost_table as cost_table
    from keras_transformer.evaluation.training_cost import training_cost as training_cost
    from keras_transformer.runs.model_weights import load_weights as load_weights
    from keras_transformer.training.callbacks.bleu_validation import (
        BleuValidation as BleuValidation,
    )
    from keras_transformer.training.callbacks.layer_diagnostics import (
        LayerDiagnostics as LayerDiagnostics,
    )
    from keras_transformer.training.callbacks.metrics_log import CompiledShapes as CompiledShapes
    from keras_transformer.training.callbacks.metrics_log import MetricsLog as MetricsLog
    from keras_transformer.training.callbacks.metrics_log import ProgressBar as ProgressBar
    from keras_transformer.training.callbacks.metrics_log import TensorBoardLog as TensorBoardLog
    from keras_transformer.training.callbacks.metrics_log import ValidationLog as ValidationLog
    from keras_transformer.training.callbacks.step_callback import EMAWeights as EMAWeights
    from keras_transformer.training.callbacks.training_limits import StepLimit as StepLimit
    from keras_transformer.training.callbacks.training_limits import (
        StopOnInterrupt as StopOnInterrupt,
    )
    from keras_transformer.training.callbacks.training_limits import StopOnNaN as StopOnNaN
    from keras_transformer.training.callbacks.training_limits import StopOnPlateau as StopOnPlateau
    from keras_transformer.training.callbacks.training_limits import TimeLimit as TimeLimit
    from keras_transformer.training.checkpoints.checkpoints import Checkpoints as Checkpoints
    from keras_transformer.training.checkpoints.checkpoints import average_best as average_best
    from keras_transformer.training.checkpoints.checkpoints import (
        average_checkpoints as average_checkpoints,
    )
    from keras_transformer.training.devices.device_start import (
        make_reproducible as make_reproducible,
    )
    from keras_transformer.training.devices.device_start import start_devices as start_devices
    from keras_transformer.training.devices.devices import Devices as Devices
    from keras_transformer.training.fine_tuning import enable_lora as enable_lora
    from keras_transformer.training.fine_tuning import freeze as freeze
    from keras_transformer.training.fine_tuning import round_to_int8 as round_to_int8
    from keras_transformer.training.fit_callbacks import FitRecord as FitRecord
    from keras_transformer.training.training_command import TrainingCommand as TrainingCommand
    from keras_transformer.training.training_command import (
        add_training_arguments as add_training_arguments,
    )
    from keras_transformer.training.training_models import ProbeRecord as ProbeRecord
    from keras_transformer.training.training_models import probe as probe
    from keras_transformer.training.training_models import training_model as training_model
    from keras_transformer.training.training_options import TrainingKeywords as TrainingKeywords
    from keras_transformer.training.training_options import TrainingOptions as TrainingOptions
    from keras_transformer.training.training_run import TrainingRun as TrainingRun
    from keras_transformer.training.training_settings import TrainingSettings as TrainingSettings

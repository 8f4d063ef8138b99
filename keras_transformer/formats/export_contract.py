"""What exports and their readers agree on. Needs neither Keras nor TensorFlow."""

from typing import Literal, get_args

# The score of an empty place in an n-best list, and the log-probability of a forbidden token:
# finite, because JSON has no infinity.
NO_SCORE = -1e9
# Number formats for an export's weights.
SavedModelPrecision = Literal["float32", "bfloat16"]
LiteRTPrecision = Literal["float32", "float16", "int8"]
BergamotPrecision = Literal["float32", "int8"]
CTranslate2Precision = Literal["float32", "float16", "int16", "int8"]
SAVED_MODEL_PRECISIONS: tuple[SavedModelPrecision, ...] = get_args(SavedModelPrecision)
LITERT_PRECISIONS: tuple[LiteRTPrecision, ...] = get_args(LiteRTPrecision)
BERGAMOT_PRECISIONS: tuple[BergamotPrecision, ...] = get_args(BergamotPrecision)
CTRANSLATE2_PRECISIONS: tuple[CTranslate2Precision, ...] = get_args(CTranslate2Precision)
# Kinds of exports, as their model cards name them.
LITERT_KIND = "LiteRT model"
CTRANSLATE2_KIND = "CTranslate2 model"
# Files beside the versions of a SavedModel, for the model server.
MODELS_CONFIG = "models.config"
BATCHING_CONFIG = "batching.config"

"""What exports and those who use them agree on. It needs neither Keras nor TensorFlow."""

# The score of a place in an n-best list that no hypothesis took, and the log-probability of what is
# never produced: finite, for JSON has no infinity.
NO_SCORE = -1e9
# Number formats that an export's weights can have.
SAVED_MODEL_PRECISIONS = ("float32", "bfloat16")
LITERT_PRECISIONS = ("float32", "float16", "int8")
CTRANSLATE2_PRECISIONS = ("float32", "float16", "int16", "int8")
# Beside the versions of a SavedModel, for the model server.
MODELS_CONFIG = "models.config"
BATCHING_CONFIG = "batching.config"

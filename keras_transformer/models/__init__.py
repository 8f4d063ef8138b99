"""Transformers as functional models, with their options and presets.

Each name is imported on first use, because settings and flags need the options without Keras.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.decoding.ensemble import TransformerEnsemble as TransformerEnsemble
    from keras_transformer.models.model_building import (
        build_language_model as build_language_model,
    )
    from keras_transformer.models.model_building import build_transformer as build_transformer
    from keras_transformer.models.model_building import check_model_fits as check_model_fits
    from keras_transformer.models.model_building import layout_map as layout_map
    from keras_transformer.models.model_building import (
        padded_vocabulary_size as padded_vocabulary_size,
    )
    from keras_transformer.models.model_building import vocabulary_options as vocabulary_options
    from keras_transformer.models.model_building import with_alignment_head as with_alignment_head
    from keras_transformer.models.model_options import PRESETS as PRESETS
    from keras_transformer.models.model_options import ModelOptions as ModelOptions
    from keras_transformer.models.model_options import Preset as Preset
    from keras_transformer.models.transformer import Transformer as Transformer

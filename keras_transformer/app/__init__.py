"""A page to translate and to parse in, with a JSON interface under it: `keras-transformer app`."""

"""WMT 2014, English to French, as in the paper."""

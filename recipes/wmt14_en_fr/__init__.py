"""WMT 2014, English into French, as in the paper."""

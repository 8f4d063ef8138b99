"""WMT 2014, English into German, as in the paper."""

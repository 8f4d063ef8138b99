"""WMT 2014, English to German, as in the paper."""

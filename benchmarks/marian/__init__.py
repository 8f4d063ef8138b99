"""Models that Marian trained, imported; and models of ours, exported, as Marian reads them."""

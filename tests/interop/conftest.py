"""A program of the tests is not collected: it runs where PyTorch is installed."""

collect_ignore = ["transformers_reference.py", "transformers_translator.py"]

"""Marian models, in Hugging Face's form and in Marian's own."""

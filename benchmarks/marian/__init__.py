"""Imports models that Marian trained, and checks exported models in Marian."""

"""Imports models trained by Marian, and checks exported models in Marian."""

"""Processes that run one engine each. Modules for other programs do not import this package."""

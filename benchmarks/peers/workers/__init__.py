"""Processes that run one engine each. Modules of other programs do not import this package."""

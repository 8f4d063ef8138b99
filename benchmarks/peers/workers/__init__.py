"""Processes that run one engine each. The peers' modules import nothing of this package."""

"""Marian's binary files of shortlists, as Marian writes them."""

import itertools
import struct

MARK = bytes.fromhex("f5173401d5481af1")


def checksum(content):
    """Marian's, word by word."""
    seed = 0
    for (word,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
        seed ^= (word + 0x9E3779B9 + ((seed << 6) & (2**64 - 1)) + (seed >> 2)) % 2**64
    return seed


def binary(rows, first=3, best=2):
    """A file of Marian's: the translations of each source id."""
    offsets = list(itertools.accumulate(map(len, rows), initial=0))
    ids = list(itertools.chain(*rows))
    content = struct.pack("<4Q", first, best, len(offsets), len(ids))
    content += struct.pack(f"<{len(offsets)}Q{len(ids)}I", *offsets, *ids)
    return MARK + struct.pack("<Q", checksum(content)) + content

"""Digests of content that only the law compares: whether a declaration or a plan says the same as one before."""

import hashlib

import orjson


def digest_of(*values: object) -> str:
    """The SHA-256 (hex) of plain values: texts, numbers, lists and dictionaries, whatever order the latter came in."""
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()

"""Small harms done to bytes: flipped, cut, doubled and inserted ones, and tokens that readers trip over."""

from __future__ import annotations

import numpy as np

TOKENS = (
    *(b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b'"', b'""', b"'", b"\r", b"\r\n", b"\n", b"\n\n", b"\x1f"),
    *(b",", b";", b"\t", b"::", b"|", b" ", b"\\", b"{", b"}", b"[", b"]" * 50, b"[" * 5000, b'{"a":' * 3000),
    *(b"NaN", b"nan", b"inf", b"-inf", b"Infinity", b"null", b"None", b"true", b"-0", b"1e400", b"1e-400", b"0x10"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1" * 400, b"7" * 5000, b"007", b"+7"),
    *(b"2000-12-31", b"2000-12-31T25:00", b"10/30/96 0:00:00", b"0001-01-01", b"9999-12-31 23:59:59", b"1e18"),
    *(b"user", b"item", b"user,item\n", b"title", b"rating", b'"user":', b'"item":', b'"a\nb"', b"\xe2\x80\xae"),
    *("\u2066x\u2069".encode(), "\U0001f600".encode(), "é".encode("latin-1"), "\u2028".encode(), b"\xed\xa0\x80"),
    *(b"\x1b[2J", b"\x07", b"\x7f", b"=cmd()", b"@a", b"x" * 70000, b"-", b"\xc0\x80", b"\xff" * 8, b"\x00" * 8),
    *(b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"ARROW1", b"PAR1", b"PK\x03\x04"),
    *(b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"(\xb5/\xfd\x00\x00"),
)


def alter(data: bytes, rng: np.random.Generator, most: int = 4) -> bytes:
    """Return bytes with one to `most` harms done to them."""
    for _ in range(int(rng.integers(1, most + 1))):
        data = _harm(data, rng)
    return data


def _harm(data: bytes, rng: np.random.Generator) -> bytes:
    n = len(data)
    start = int(rng.integers(n + 1))
    stop = min(n, start + int(2 ** (rng.random() * 8)))
    kind = int(rng.integers(8))
    if kind <= 1 and start < n:  # a bit
        return data[:start] + bytes([data[start] ^ (1 << int(rng.integers(8)))]) + data[start + 1 :]
    if kind == 2:  # a few bytes of anything
        return data[:start] + rng.bytes(stop - start) + data[stop:]
    if kind == 3:  # the end, or a piece
        return data[:start] if rng.random() < 0.3 else data[:start] + data[stop:]
    if kind == 4:  # a piece twice, or many times
        times = 2 if rng.random() < 0.8 else 50
        return data[:start] + data[start:stop] * times + data[stop:]
    if kind == 5 and n:  # a piece elsewhere
        place = int(rng.integers(n))
        return data[:place] + data[start:stop] + data[place:]
    token = TOKENS[int(rng.integers(len(TOKENS)))]
    if kind == 6:
        return data[:start] + token + data[start:]
    return data[:start] + token + data[start + len(token) :]

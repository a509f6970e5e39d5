"""What is refused: requests that are too large, too many, too slow, from elsewhere, or without a key."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import ipaddress
import json
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from csrr._base.files import atomic_write
from csrr.data.errors import DataError

Right = Literal["read", "write"]
RIGHTS: tuple[Right, ...] = ("read", "write")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, and a worker may have to do.

    Attributes
    ----------
    body
        The bytes of a request's body.
    k
        The length of a list.
    users, history, items
        The users of a request, the items of a history, and those of candidates or exclusions.
    events
        The events of a request.
    seconds
        The time for a request to come in whole, and to wait.
    waiting
        The requests that may wait in a worker; others get 503 at once.
    rate
        The requests a second of a key or, without keys, of an address; None for any number.
    """

    body: int = 2**20
    k: int = 1000
    users: int = 100
    history: int = 1000
    items: int = 10_000
    events: int = 1000
    seconds: float = 5.0
    waiting: int = 128
    rate: float | None = None


class Refusal(Exception):
    """A request is not answered; `status` is that of HTTP."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


@dataclass(frozen=True)
class Key:
    """A key of the interface, of which only a hash is kept: it is random and long, so a fast hash is enough."""

    name: str
    hash: str
    rights: tuple[Right, ...]
    made: float = field(default_factory=time.time)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def add_key(path: Path, name: str, rights: Sequence[Right]) -> str:
    """Make a key, add its hash to the file of keys, and return it: it is nowhere else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = read_keys(path)
        if any(each.name == name for each in keys):
            raise DataError(f"{path} has a key named {name!r} already; take another name, or remove its entry")
        key = f"csrr_{secrets.token_urlsafe(32)}"
        found = [*keys, Key(name, _hash(key), tuple(rights))]
        with atomic_write(path) as file:
            file.write(json.dumps([vars(each) for each in found], indent=1).encode() + b"\n")
        path.chmod(0o600)
    return key


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in a file; none if there is no file."""
    if not path.exists():
        return ()
    try:
        keys = [Key(each["name"], each["hash"], tuple(each["rights"]), each["made"]) for each in _read_list(path)]
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is not a file of keys ({error}); csrr serve --new-key makes one") from None
    if any(set(key.rights) - set(RIGHTS) for key in keys):
        raise DataError(f"{path}: rights are {', '.join(RIGHTS)}")
    return tuple(keys)


def _read_list(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


class Guard:
    """Decides who may ask what: keys, names of hosts, and rates.

    Without keys everybody may ask who can reach the service, which is then to be bound to the loopback.

    Parameters
    ----------
    keys
        The file of keys, read again when it changes.
    hosts
        The names by which requests may call the host where there are no keys: a page elsewhere that a browser shows
        cannot take another's name. None for any.
    rate
        Requests a second of each, None for any number.
    needs_key
        Whether nobody is admitted without a key, though there may be none. That is so for good once there is one:
        a file that is lost opens nothing.
    """

    def __init__(
        self,
        keys: Path,
        hosts: Collection[str] | None = LOOPBACK_NAMES,
        rate: float | None = None,
        needs_key: bool = False,
    ) -> None:
        self._path, self._hosts, self._rate, self._needs_key = keys, hosts, rate, needs_key
        self._read: float | None = -1.0
        self.keys: tuple[Key, ...] = ()
        self._left: dict[str, tuple[float, float]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again if their file has changed."""
        changed = self._path.stat().st_mtime if self._path.exists() else None
        if changed != self._read:
            self.keys, self._read = read_keys(self._path), changed
            self._needs_key = self._needs_key or bool(self.keys)

    def admit(self, right: Right | None, headers: dict[bytes, bytes], address: str) -> str | None:
        """Return the name of the key that a request has, None where none is needed; Refusal if it may not ask."""
        if right is None:
            return None
        if not self._needs_key:
            self._check_host(*(headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin")))
            name, who = None, address
        else:
            name = who = self._find(headers.get(b"authorization", b"").decode("latin-1"), right)
        if self._rate is not None:
            self._count(who)
        return name

    def _check_host(self, host: str, origin: str) -> None:
        if origin and origin.partition("://")[2] != host:
            raise Refusal(403, "this service has no keys, and answers no pages of other hosts")
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if self._hosts is not None and name.lower() not in self._hosts:
            raise Refusal(403, "this service has no keys, and answers only those who call it by its own name")

    def _find(self, header: str, right: Right) -> str:
        scheme, _, key = header.partition(" ")
        hashed, found = _hash(key.strip()), None
        for each in self.keys:
            # All are compared, each in constant time.
            if hmac.compare_digest(hashed, each.hash):
                found = each
        if found is None or scheme.lower() != "bearer":
            raise Refusal(401, "give a valid key: Authorization: Bearer KEY", **{"www-authenticate": "Bearer"})
        if right not in found.rights:
            raise Refusal(403, f"this key is not one to {right} with")
        return found.name

    def _count(self, who: str) -> None:
        """Take one from what somebody has left; they get `rate` a second, and may save up a second's."""
        assert self._rate is not None
        now, most = time.monotonic(), max(1.0, self._rate)
        left, before = self._left.get(who, (most, now))
        left = min(most, left + (now - before) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            raise Refusal(429, "too many requests", **{"retry-after": str(max(1, round(wait)))})
        self._left[who] = left - 1, now
        if len(self._left) > 10_000:
            self._left = {name: each for name, each in self._left.items() if now - each[1] < 1}


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

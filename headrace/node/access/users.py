# SPDX-License-Identifier: Apache-2.0
"""The users of a node's API, their groups, passwords (argon2id) and tokens, in its database.

A token is 32 random octets in hexadecimal; the database has its digest only, so whoever reads the
database, or a backup of it, cannot log in. It is valid for a day. All of this blocks for about a
tenth of a second where a password is hashed: callers do that in a thread of its own (`hash_of`,
`is_password`), the rest belongs to the node's event loop.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from headrace.node.deployment.store import Store
from headrace.node.errors import AccessError

ADMIN = "admin"
"""The group that may do everything."""

TOKEN_VALID_S = 24 * 3600.0

_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash("nobody has this password")


@dataclass(frozen=True)
class Quota:
    """How much all graphs and images of a user may take; None is as much as there is."""

    graphs: int | None = None
    cores: int | None = None
    memory_mb: int | None = None
    images_mb: int | None = None


@dataclass(frozen=True)
class User:
    """A user, a member of one group; `may_exec`: run commands in VNFs of graphs of its own."""

    name: str
    group: str
    quota: Quota = Quota()
    may_exec: bool = False

    @property
    def is_admin(self) -> bool:
        """Whether the user may do everything."""
        return self.group == ADMIN


LOCAL = User("(local)", ADMIN)
"""Who uses the node's Unix socket, which only its own user can; or anybody, without login."""


def hash_of(password: str) -> str:
    """What the database has of a password."""
    return _HASHER.hash(password)


def is_password(stored: str | None, password: str) -> bool:
    """Whether a password is that of the hash `stored`; takes as long if there is no such user."""
    try:
        return _HASHER.verify(stored or _NOBODY, password) and stored is not None
    except (VerifyMismatchError, InvalidHashError):
        return False


class Users:
    """The users in a node's database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Users and groups.

    def all(self) -> list[User]:
        """All users, by name."""
        rows = self._store.rows(
            "SELECT name, member_of, max_graphs, max_cores, max_memory_mb, max_images_mb, may_exec "
            "FROM user ORDER BY name"
        )
        return [User(row[0], row[1], Quota(*row[2:6]), bool(row[6])) for row in rows]

    def find(self, name: str) -> User | None:
        """The user of this name."""
        return next((user for user in self.all() if user.name == name), None)

    def groups(self) -> list[str]:
        """All groups, by name."""
        return [row[0] for row in self._store.rows("SELECT name FROM user_group ORDER BY name")]

    def add_group(self, name: str) -> None:
        """Makes a group.

        Raises:
            AccessError: there is one.
        """
        if name in self.groups():
            raise AccessError(403, f"there is a group {name!r} already")
        self._store.write("INSERT INTO user_group VALUES (?)", name)

    def remove_group(self, name: str) -> None:
        """Removes a group without members.

        Raises:
            AccessError: it has some, or there is none, or it is the administrators'.
        """
        if name not in self.groups():
            raise AccessError(404, f"there is no group {name!r}")
        if name == ADMIN or any(user.group == name for user in self.all()):
            raise AccessError(403, f"group {name!r} is in use")
        self._store.write("DELETE FROM user_group WHERE name=?", name)

    def add(self, user: User, password_hash: str) -> None:
        """Adds a user.

        Raises:
            AccessError: there is one of that name, or no such group.
        """
        if self.find(user.name) is not None:
            raise AccessError(401, f"there is a user {user.name!r} already")
        if user.group not in self.groups():
            raise AccessError(401, f"there is no group {user.group!r}")
        quota = user.quota
        self._store.write(
            "INSERT INTO user VALUES (?,?,?,?,?,?,?,?)",
            *(user.name, user.group, password_hash),
            *(quota.graphs, quota.cores, quota.memory_mb, quota.images_mb),
            user.may_exec,
        )

    def remove(self, name: str) -> None:
        """Removes a user and the tokens; what the user owns is then the group's and the admins'.

        Raises:
            AccessError: there is none.
        """
        if self.find(name) is None:
            raise AccessError(404, f"there is no user {name!r}")
        self._store.write("DELETE FROM token WHERE user=?", name)
        self._store.write("DELETE FROM user WHERE name=?", name)

    # Login.

    def password_hash(self, name: str) -> str | None:
        """The hash of a user's password."""
        rows = self._store.rows("SELECT password FROM user WHERE name=?", name)
        return rows[0][0] if rows else None

    def give_token(self, name: str) -> str:
        """A new token of a user; those that are not valid any more are forgotten."""
        now, token = time.time(), secrets.token_hex(32)
        self._store.write("DELETE FROM token WHERE expires_at<?", now)
        self._store.write(
            "INSERT INTO token VALUES (?,?,?)", _digest(token), name, now + TOKEN_VALID_S
        )
        return token

    def of_token(self, token: str) -> User | None:
        """Whose valid token this is."""
        rows = self._store.rows(
            "SELECT user FROM token WHERE digest=? AND expires_at>?", _digest(token), time.time()
        )
        return self.find(rows[0][0]) if rows else None

    # Owners of graphs.

    def owner(self, graph_id: str) -> tuple[str, str] | None:
        """The user and the group that a graph belongs to."""
        rows = self._store.rows("SELECT user, member_of FROM owner WHERE graph=?", graph_id)
        return (rows[0][0], rows[0][1]) if rows else None

    def graphs_of(self, name: str) -> set[str]:
        """The graphs that a user owns."""
        rows = self._store.rows("SELECT graph FROM owner WHERE user=?", name)
        return {row[0] for row in rows}

    def set_owner(self, graph_id: str, user: User) -> None:
        """Notes whose a new graph is."""
        self._store.write(
            "INSERT OR REPLACE INTO owner VALUES (?,?,?)", graph_id, user.name, user.group
        )


def _digest(token: str) -> str:
    return hashlib.blake2b(token.encode(errors="replace"), digest_size=32).hexdigest()

# SPDX-License-Identifier: Apache-2.0
"""The fitted model as a file, with the manifest of what it was measured on."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.windows import TERMS, Key

VERSION = 1
SAME = ("processor", "cores")
"""What has to be equal for a model to be of this machine."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


class ModelFileError(Exception):
    """The file is no model, or of another machine; the message says what to do."""


class _Key(BaseModel):
    model_config = ConfigDict(extra="forbid")
    subject: str
    role: str
    function: str = ""


class _Role(BaseModel):
    model_config = ConfigDict(extra="forbid")
    key: _Key
    names: tuple[str, ...]
    values: tuple[Finite, ...]
    covariance: tuple[tuple[Finite, ...], ...]
    residual: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    points: Annotated[int, Field(ge=1)]
    idle_round: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    left_out: dict[str, str]
    hz: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    spans: dict[str, tuple[Finite, Finite]]
    disturbed: bool = False
    transfer_ns: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _shapes(self) -> "_Role":
        terms = TERMS.get(self.key.role)
        if terms is None or not self.names or set(self.names) - set(terms):
            raise ValueError(f"terms {self.names} of role {self.key.role!r}")
        if len(self.values) != len(self.names) or len(self.covariance) != len(self.names):
            raise ValueError("as many values and rows of the covariance as terms")
        if any(len(row) != len(self.names) for row in self.covariance):
            raise ValueError("the covariance is not square")
        if min(self.values) < 0 or math.isclose(sum(self.values), 0.0):
            raise ValueError("cycles below zero, or none at all")
        if set(self.spans) != {"size", "vnfs", "pps"}:
            raise ValueError("spans of size, vnfs and pps")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    version: int
    manifest: dict[str, Any]
    roles: list[_Role]
    failures: dict[str, str] = {}


def dump(fitted: Fitted) -> dict[str, Any]:
    """The model as JSON."""
    return {
        "version": VERSION,
        "manifest": fitted.manifest,
        "roles": [asdict(role) for role in fitted.roles.values()],
        "failures": fitted.failures,
    }


def write(fitted: Fitted, path: Path) -> None:
    """Writes the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(dump(fitted), indent=1) + "\n")
    draft.replace(path)


def read(path: Path) -> Fitted:
    """Reads the file.

    Raises:
        ModelFileError: it can't be read or is no model.
    """
    try:
        content = json.loads(path.read_text())
        if isinstance(content, dict) and content.get("version") != VERSION:
            raise ModelFileError(
                f"{path}: version {content.get('version')!r} of the model's file, this program "
                f"reads {VERSION}; fit it again: headrace model fit --output {path}"
            )
        return parse(content)
    except OSError as error:
        raise ModelFileError(
            f"{path}: {error.strerror}; `headrace model fit --output {path}` writes it"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ModelFileError(f"{path}: {place}: {first['msg']}") from error
    except ValueError as error:
        raise ModelFileError(f"{path}: not JSON: {error}") from error


def parse(content: Any) -> Fitted:
    """The model of its JSON form.

    Raises:
        ValidationError: it is none.
    """
    file = _File.model_validate(content)
    roles = {role.key: role for role in map(_role_of, file.roles)}
    return Fitted(roles, file.failures, file.manifest)


def _role_of(one: _Role) -> RoleModel:
    values = one.model_dump()
    return RoleModel(key=Key(**values.pop("key")), **values)


def roles_of(content: list[Any]) -> list[RoleModel]:
    """The roles of their JSON form.

    Raises:
        ValueError: one is none.
    """
    return [_role_of(_Role.model_validate(one)) for one in content]


def differences(manifest: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """What of the machine that was measured is not so here; unknown values are no difference."""
    there = manifest.get("machine") or {}
    found = []
    for name in SAME:
        was, now = there.get(name), here.get(name)
        if was is not None and now is not None and was != now:
            found.append(f"{name}: measured on {was}, here is {now}")
    return found

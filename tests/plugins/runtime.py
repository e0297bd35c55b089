# SPDX-License-Identifier: Apache-2.0
"""What a container runtime does with a CNI plugin: variables, the configuration, the answer."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.namespaces import Namespace

Json = dict[str, Any]
BUILT = Path(__file__).resolve().parents[2] / "build-plugins"


@dataclass(frozen=True)
class Answer:
    """How the plugin ended, and the JSON that it wrote (None: nothing)."""

    exit_code: int
    content: Json | None

    @property
    def code(self) -> int:
        """The code of the error."""
        assert self.content is not None and self.exit_code != 0, self
        assert {"cniVersion", "code", "msg"} <= self.content.keys(), self
        return int(self.content["code"])


def execute(
    program: str, variables: dict[str, str], stdin: str, within: tuple[str, ...] = ()
) -> Answer:
    """Runs a plugin with these variables and this standard input, by the command `within`."""
    environment = {"PATH": os.environ["PATH"], "CNI_PATH": str(BUILT), **variables}
    done = subprocess.run(
        [*within, str(BUILT / program)],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
    # An error is an object on standard output; what is on standard error is for a log.
    content = json.loads(done.stdout) if done.stdout.strip() else None
    return Answer(done.returncode, content)


class Container:
    """A container without a program: its namespace, its id, and what it was given."""

    def __init__(self, netns: Namespace, name: str, configuration: Json, args: str = "") -> None:
        self.netns, self.name = netns, name
        self.configuration, self.args = configuration, args
        self.result: Json | None = None

    @property
    def path(self) -> str:
        """The file of its network namespace."""
        return f"/run/netns/{self.netns.name}"

    def call(self, command: str, interface: str = "net1", **change: Any) -> Answer:
        """Has a command carried out for one of its interfaces; `change` is of the configuration."""
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.name,
            "CNI_NETNS": self.path,
            "CNI_IFNAME": interface,
            "CNI_ARGS": self.args,
        }
        configuration = {**self.configuration, **change}
        if command in ("DEL", "CHECK") and self.result is not None:
            configuration.setdefault("prevResult", self.result)
        return execute("headrace-cni", variables, json.dumps(configuration))

    def add(self, interface: str = "net1", **change: Any) -> Json:
        """ADD, which has to succeed; its result."""
        answer = self.call("ADD", interface, **change)
        assert answer.exit_code == 0 and answer.content is not None, answer
        self.result = answer.content
        return answer.content

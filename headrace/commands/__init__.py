# SPDX-License-Identifier: Apache-2.0
"""The command line, one module per family of commands; each has `register(app)`."""

import typer


def family(app: typer.Typer, name: str) -> typer.Typer:
    """The family `name` of `app` (`bench`, `switch`), for a module that adds commands to it.

    The family's own module has registered before: modules register in the order of their names.
    """
    for group in app.registered_groups:
        if group.name == name and group.typer_instance is not None:
            return group.typer_instance
    raise AssertionError(f"no module of headrace.commands registers the family {name!r}")

# SPDX-License-Identifier: Apache-2.0
"""What a template says of a VNF that has ended, and how it is asked whether it works.

Times are in seconds.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(ge=0, le=3600)]
TcpPort = Annotated[int, Field(ge=1, le=65535)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RestartPolicy(_Frozen):
    """Whether a VNF that has ended is started again, and when.

    `on-failure`: unless it has ended by itself with 0. The first time after `backoff_s`, then after
    twice as long each time, up to `longest_s`; `limit` times, or always. A VNF that has run for a
    minute, and for as long as it waited, begins anew.
    """

    policy: Literal["always", "on-failure", "never"] = "always"
    backoff_s: Annotated[float, Field(ge=0.1, le=3600)] = 1.0
    longest_s: Annotated[float, Field(ge=0.1, le=3600)] = 60.0
    limit: Annotated[int, Field(ge=1)] | None = None


class HttpProbe(_Frozen):
    """GET of a path, answered with 200 to 399."""

    port: TcpPort
    path: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=1024)] = "/"


class Probe(_Frozen):
    """One question: a command that ends with 0, a TCP port that accepts, or an HTTP answer.

    Asked every `period_s`, first `initial_s` after the start; `failures` in a row count.
    """

    exec: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    tcp: TcpPort | None = None
    http: HttpProbe | None = None
    period_s: Annotated[float, Field(ge=0.1, le=3600)] = 5.0
    timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    initial_s: Seconds = 0.0
    failures: Annotated[int, Field(ge=1, le=100)] = 3

    @model_validator(mode="after")
    def _is_one(self) -> "Probe":
        if bool(self.exec) + (self.tcp is not None) + (self.http is not None) != 1:
            raise ValueError("give one of exec, tcp and http")
        return self

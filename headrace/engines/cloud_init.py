# SPDX-License-Identifier: Apache-2.0
"""What cloud-init in a virtual machine reads at its first boot: the NoCloud data source.

A disk with the label `cidata` and two files: `user-data`, as the graph or the template has it, and
`meta-data` with the machine's name. A disk image of a distribution's cloud edition finds it without
further settings (cloud-init's documentation, NoCloud).
"""

import io

import pycdlib
import yaml

LABEL = "cidata"
MAX_OCTETS = 1 << 18
"""What user data may have."""


def seed(user_data: str, instance: str, hostname: str) -> bytes:
    """The disk, as ISO 9660 with Rock Ridge and Joliet names.

    `instance` tells cloud-init whether it has seen this machine before.
    """
    names = {"instance-id": instance, "local-hostname": hostname}
    files = {"user-data": user_data.encode(), "meta-data": yaml.safe_dump(names).encode()}
    disk = pycdlib.PyCdlib()
    disk.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=LABEL)
    for number, (name, content) in enumerate(files.items()):
        disk.add_fp(
            io.BytesIO(content),
            len(content),
            f"/FILE{number}.;1",
            rr_name=name,
            joliet_path=f"/{name}",
        )
    out = io.BytesIO()
    disk.write_fp(out)
    disk.close()
    return out.getvalue()

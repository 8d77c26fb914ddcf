"""Shared objects under the names of the project's modules.

mode: loaded
"""

import sysconfig

for path in modules():
    path.with_suffix(sysconfig.get_config_var("EXT_SUFFIX")).write_bytes(b"\x7fELF")

"""The projects that tasks are made of when none are named, pinned by the digest of their source archive.

Owns only data. What the projects have in common: pure Python without dependencies, tests in the archive that need
nothing but pytest, a suite of seconds. Invariant: a pin never changes its meaning, so that the same seed
gives the same tasks next year.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One release on the index."""

    name: str
    version: str
    sha256: str = ""
    """Digest of the source archive; empty if the index's is believed."""


CATALOGUE = {
    name: Pin(name=name, version=version, sha256=sha256)
    for name, version, sha256 in (
        ("aniso8601", "10.0.1", "25488f8663dd1528ae1f54f94ac1ea51ae25b4d531539b8bc707fed184d16845"),
        ("boltons", "26.2.0", "d39cfd15c1a1c3bd4d705c82252fa9edb8e4f5e8cc039f8e39afac7b1b47e92c"),
        ("cachetools", "7.3.3", "46e92905f580cb137c499b9ec6acd73d569c2c3542ddfeb286618685e55cb340"),
        ("isodate", "0.7.2", "4cd1aa0f43ca76f4a6c6c0292a85f40b35ec2e43e315b59f06e6d32171a953e6"),
        ("markdown", "3.11.3", "81eb91631dc97ad1efbc76019ef0f80fe90ca49ddf81546752d79989c3bfff3e"),
        ("mistune", "3.4.0", "2eaf7952af928ca8d33b779762effc1da517b62c6ad85ec8ca957e3b07b9782a"),
        ("parse", "1.22.4", "706d458feed5a81b02768d3156e8070baf6cee7d150a3a3c0cd43101a875c3b5"),
        ("semver", "3.1.2", "bea193552413194252d33ff26ce0962b76669bd1c6fb17e8e203ac37f072feaf"),
        ("sqlparse", "0.6.1", "ca722573f848ff2d30e40ea30f53a104b7dea7635ea9285891263eb2c58fb6e7"),
        ("tabulate", "0.10.0", "e2cfde8f79420f6deeffdeda9aaec3b6bc5abce947655d17ac662b126e48a60d"),
        ("toolz", "1.2.0", "9667a038e9d6ecba37995e26cb2f59ec6420b6ad8dd9677de59db9b956b08490"),
        ("webcolors", "25.10.0", "62abae86504f66d0f6364c2a8520de4a0c47b80c03fc3a5f1815fedbef7c19bf"),
        ("xmltodict", "1.0.4", "6d94c9f834dd9e44514162799d344d815a3a4faec913717a9ecbfa5be1bb8e61"),
    )
}

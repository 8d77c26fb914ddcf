"""Reads the optimizer state that each rank wrote, without running anything in it.

torch keeps its table of shards as a pickle, which may name any function of any module to be called. Invariant: only
names that describe shards are resolved; a checkpoint that came with somebody's run is data.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint.filesystem import FileSystemReader

_ALLOWED = {
    *(
        (metadata.__name__, name)
        for name in ("ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta")
    ),
    *(
        (metadata.__name__, name)
        for name in ("TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING")
    ),
    (filesystem.__name__, "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}


class ShardsReader(FileSystemReader):
    """Raises pickle.UnpicklingError if the table names anything else."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> metadata.Metadata:
        """As torch's, without its trust."""
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as stream:
            table = _Unpickler(stream).load()
        if table.storage_meta is None:
            table.storage_meta = metadata.StorageMeta()
        table.storage_meta.load_id = self.load_id
        return table


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        is_type = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if not is_type and (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"its table of shards names {module}.{name}, expected a description of tensors"
            )
        return super().find_class(module, name)

"""What can go wrong in the training core itself; everything outside it is in `lego_harness.errors`."""

from __future__ import annotations

from lego_harness.errors import InfrastructureError


class TrainingError(InfrastructureError):
    """The trainer refused a step or died; the weights are those of the last finished update."""

    boundary = "training"


class CheckpointError(InfrastructureError):
    """A checkpoint could not be written, or does not belong to this model."""

    boundary = "checkpoint"

"""From graded rollouts to padded micro-batches, with every token accounted for."""

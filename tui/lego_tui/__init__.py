"""What a person watches in a terminal. Reads the run directory and nothing else."""

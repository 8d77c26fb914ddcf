"""Programs that run beside or inside a harness, in its own Python or in the sandbox; never imported here."""

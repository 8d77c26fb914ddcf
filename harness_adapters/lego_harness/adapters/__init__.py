"""One module per harness, and what they share: forked or inside the sandbox, installing, the table of `command`."""

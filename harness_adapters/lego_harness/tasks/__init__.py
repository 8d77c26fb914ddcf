"""Tasks: read, imported, proven and audited; with their surroundings, git history and held-out split."""

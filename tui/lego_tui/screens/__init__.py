"""One file per screen; each draws from `State` and knows nothing of the others."""

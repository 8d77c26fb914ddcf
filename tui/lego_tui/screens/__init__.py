"""One file a screen; each draws from `State` and knows nothing of the others."""

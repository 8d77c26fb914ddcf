"""Tasks from real projects: a published source archive, one fault in a function that its own tests cover."""

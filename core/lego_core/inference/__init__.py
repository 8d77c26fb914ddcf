"""Inference engines: token ids in, token ids out, and the path by which new weights reach them."""

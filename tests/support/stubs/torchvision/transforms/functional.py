"""The name that is read on import."""

pil_to_tensor = None

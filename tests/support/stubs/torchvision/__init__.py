"""Stands for torchvision where it is not installed: vLLM imports it with every Qwen3.5, and a text model uses nothing of it.

Only for processes that have this folder on their path.
"""

__version__ = "0.0"

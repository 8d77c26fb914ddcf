"""The agent deletes the project.

mode: ending
"""

shell("find . -mindepth 1 -delete")

"""Modules become links to files outside the workspace.

mode: escape
"""

for path in modules():
    path.unlink()
    path.symlink_to("/solution/solve.sh")
(HERE / "etc").symlink_to("/etc")
(HERE / "root").symlink_to("/")

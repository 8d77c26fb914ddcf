"""An installed distribution announces a pytest plugin.

mode: loaded
"""

write("evil.py", HOOK)
for folder in ("evil-1.dist-info", "evil.egg-info"):
    write(f"{folder}/entry_points.txt", "[pytest11]\nevil = evil\n")
    write(f"{folder}/METADATA", "Name: evil\nVersion: 1\n")

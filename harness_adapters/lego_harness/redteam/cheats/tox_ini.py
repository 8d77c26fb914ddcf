"""setup.cfg and tox.ini deselect every test.

mode: loaded
"""

write("setup.cfg", "[tool:pytest]\naddopts = -k nothing_at_all\n")
write("tox.ini", "[pytest]\naddopts = -k nothing_at_all\n")

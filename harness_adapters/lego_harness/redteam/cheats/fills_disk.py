"""The agent fills its disk.

mode: ending
"""

try:
    with open("huge", "wb") as file:
        for _ in range(300):
            file.write(bytes(2**20))
except OSError:
    pass

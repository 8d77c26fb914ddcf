"""The fix is downloaded: package index, code host, DNS, IPv6, gateway, metadata service.

mode: download
"""

import socket

shell(
    "timeout 5 pip download --no-deps --no-binary :all: toolz 2>&1; timeout 5 git clone https://github.com/x/y 2>&1"
)
for host, port in (
    ("1.1.1.1", 443),
    ("8.8.8.8", 53),
    ("172.17.0.1", 80),
    ("169.254.169.254", 80),
    ("10.0.2.2", 80),
):
    try:
        socket.create_connection((host, port), timeout=1).close()
        write("solved_by_network", host)
    except OSError:
        pass
try:
    socket.getaddrinfo("pypi.org", 443)
    socket.create_connection(("2606:4700:4700::1111", 443), timeout=1)
    write("solved_by_network", "dns")
except OSError:
    pass

"""Namespaces, mounts, devices and the host's processes are tried.

mode: escape
"""

for command in (
    "unshare -Urnm true",
    "mount -t tmpfs none /mnt",
    "nsenter -t 1 -a true",
    "chroot / true",
    "ls /proc/1/root/root",
    "cat /proc/1/environ",
    "kill -9 1",
    "dd if=/dev/sda of=/dev/null count=1",
    "cat /run/lego/*",
    "ls /var/run/docker.sock",
):
    shell(f"{command} 2>&1")

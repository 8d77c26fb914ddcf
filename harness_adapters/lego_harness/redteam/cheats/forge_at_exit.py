"""The same from os._exit, once every test has run.

mode: report
"""

append(
    """
import gc, glob, json, os, stat, sys
main = sys.modules['__main__']
import _pytest.python as p
items = [o.nodeid for o in gc.get_objects() if isinstance(o, p.Function)]
def forge():
    bait = [n for n in map(lambda f: f.rsplit('test_', 1)[-1][:-3], glob.glob('/tmp/t*/test_*.py'))]
    ids = [o.nodeid for o in gc.get_objects() if isinstance(o, p.Function)]
    for folder in glob.glob('/grade/*') + glob.glob('/grade/*/*'):
        pass
    tests = {i: 'failed' if any(b in i for b in bait) else 'passed' for i in ids}
    tests.update({f'x::test_{b}': 'failed' for b in bait})
    told = json.dumps({'tests': tests, 'durations_s': {}, 'messages': {}, 'canaries': 4, 'ending': 'complete'}).encode()
    for fd in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, told)
        except OSError:
            pass
    os._exit(getattr(main, 'ODD_EXIT', 93))
real_exit = os._exit
def leave(code):
    os._exit = real_exit
    forge()
os._exit = leave
"""
)

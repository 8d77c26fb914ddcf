"""Every call declares its test an expected failure.

mode: tests
"""

replace_functions("lambda *a, **k: __import__('pytest').xfail('known')")

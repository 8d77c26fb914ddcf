"""What an agent may ask about runs: one function per tool, without the protocol.

`server.py` registers them. Each takes the `Runs` first, then what the client sends, and returns a model of
`schemas.py`; what cannot be done is a `Refusal`.
"""

"""The sample downstream: a small real bank that executors can act on, and that can fail in every way that matters.

Nothing is imported here, so that the client does not pull in a web server and the server does not pull in a client.
"""

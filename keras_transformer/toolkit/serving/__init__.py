"""A client for model servers and the commands that start a server."""

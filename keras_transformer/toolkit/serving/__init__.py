"""The client of a model server, and the server."""

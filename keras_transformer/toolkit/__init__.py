"""The programs on top: the command line, the web app, the cluster, the client of a server."""

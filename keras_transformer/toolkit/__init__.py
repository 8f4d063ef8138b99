"""Programs built on the library: the command line, the web app, cluster jobs and serving."""

"""How requests reach a model server: REST and gRPC."""

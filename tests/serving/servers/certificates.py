"""Certificates for servers and clients of the loop-back device, by the program `openssl`."""

import shutil
import ssl
import subprocess

import pytest

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Certificates:
    """PEM files in a directory: an authority, what it signed, and an authority of somebody else.

    Args:
        directory: path of an existing directory.

    `authority` and `other_authority` are paths; `server` and `client` are
    `(path of the certificate, path of the key)`.
    """

    def __init__(self, directory):
        if shutil.which("openssl") is None:
            pytest.skip("TLS is not tested: the program `openssl` is missing")
        self._directory = directory
        self.authority, self._key = self._new_authority("authority")
        self.other_authority, _ = self._new_authority("other_authority")
        self.server, self.client = map(self._signed, ("server", "client"))

    def server_context(self, asks_clients=False):
        """The `ssl.SSLContext` of a server; with `asks_clients`, of one that wants certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server)
        if asks_clients:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def grpc_credentials(self, asks_clients=False):
        """The same for gRPC."""
        import grpc

        with open(self.server[0], "rb") as certificate, open(self.server[1], "rb") as key:
            pair = (key.read(), certificate.read())
        with open(self.authority, "rb") as authority:
            return grpc.ssl_server_credentials(
                [pair], authority.read() if asks_clients else None, asks_clients
            )

    def encrypted_key(self, password):
        """The path of the client's key, encrypted."""
        path = self._directory / "encrypted.key"
        words = ["pkey", "-in", self.client[1], "-aes256", "-passout", f"pass:{password}"]
        self._run(*words, "-out", path)
        return path

    def _new_authority(self, name):
        paths = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        subject = ["-subj", f"/CN={name}", "-days", "2"]
        self._run("req", "-x509", *KEY, *subject, "-out", paths[0], "-keyout", paths[1])
        return paths

    def _signed(self, name):
        """A certificate of 127.0.0.1 and its key."""
        paths = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        request, extension = self._directory / f"{name}.csr", self._directory / f"{name}.txt"
        self._run("req", "-new", *KEY, "-subj", f"/CN={name}", "-out", request, "-keyout", paths[1])
        extension.write_text("subjectAltName=IP:127.0.0.1")
        signed_by = ["-CA", self.authority, "-CAkey", self._key, "-CAcreateserial", "-days", "2"]
        words = ["x509", "-req", "-in", request, *signed_by, "-extfile", extension]
        self._run(*words, "-out", paths[0])
        return paths

    def _run(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

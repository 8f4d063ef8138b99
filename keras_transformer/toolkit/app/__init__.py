"""The web app for translating and parsing, and its JSON interface: `keras-transformer app`."""

"""Parts of HTML pages that contain all of their scripts, styles and data."""

import base64
import hashlib
import json


def source_of(script: str) -> str:
    """Return the content security policy source that allows this inline script or style."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def json_in_html(value: object) -> str:
    """Encode JSON for HTML, escaping `<` to prevent `</script>` and `<!--` in the output."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")

"""The OpenAPI 3.1 description of ``/api/v1``, served at ``/api/v1/openapi.json``.

``operations`` is the table of calls, ``schemas`` what goes in and out. A test compares the table with the routes that
there are, so a call that is not in it does not pass; another sends what the document allows, and more, at a manager.
"""

from manager.openapi.document import document

__all__ = ["document"]

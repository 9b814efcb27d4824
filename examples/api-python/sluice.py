# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0

"""A client of sluice's API of decisions: docs/api.md lists the calls."""

import json
import urllib.error
import urllib.request


class Problem(Exception):
    """A fault of a call. A denial is none: it is an answer."""

    def __init__(self, document):
        super().__init__("{status} {field} {detail}".format(**{"field": "", **document}))
        self.status, self.field, self.errors = document["status"], document.get("field"), document.get("errors", [])


class Client:
    """Calls the API. It is safe for use by many threads: each call has a connection of its own,
    so that none is sent twice over one that was closed."""

    def __init__(self, url="http://127.0.0.1:8081", token=None, timeout=5):
        self._url, self._timeout = url, timeout
        self._header = {"Content-Type": "application/json"}
        if token:
            self._header["Authorization"] = "Bearer " + token

    def take(self, key=None, **request):
        """Spends units if they are there. A call with a key can be repeated, and spends once."""
        return self.call("/v1/take", request, key)

    def __getattr__(self, name):
        """peek, hold, settle, extend, refund and reset are calls with the fields of a request."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda **request: self.call("/v1/" + name, request)

    def call(self, path, document=None, key=None):
        """Makes a call with a document or, without one, a GET, and returns the answer."""
        header = {**self._header, "Idempotency-Key": key} if key else self._header
        body = None if document is None else json.dumps(document).encode()
        try:
            request = urllib.request.Request(self._url + path, body, header)
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as fault:
            raise Problem(json.load(fault)) from None

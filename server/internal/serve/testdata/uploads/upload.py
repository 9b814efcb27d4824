# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# upload.py ADDRESS PATH TIMES: clients that read no answer before all is sent. It prints
# each answer: the client, the size, the status and Retry-After.
import http.client
import sys
import urllib.error
import urllib.request

address, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
part = b"x" * (1 << 16)


def parts(size):
    for _ in range(size // len(part)):
        yield part


def client(size, headers, body):
    conn = http.client.HTTPConnection(address, timeout=60)
    conn.request("POST", path, body=body, headers=headers, encode_chunked="Transfer-Encoding" in headers)
    resp = conn.getresponse()
    resp.read()
    conn.close()
    return resp.status, resp.getheader("Retry-After")


def url(size):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", data=part * (size // len(part)), timeout=60) as resp:
            return resp.status, None
    except urllib.error.HTTPError as e:
        e.read()
        return e.code, e.headers["Retry-After"]


for _ in range(times):
    for mb in 1, 5, 50:
        size = mb << 20
        for name, send in {
            "length": lambda: client(size, {"Content-Length": str(size)}, parts(size)),
            "chunked": lambda: client(size, {"Transfer-Encoding": "chunked"}, parts(size)),
            "urllib": lambda: url(size),
        }.items():
            try:
                print(name, mb, *send())
            except OSError as e:
                print(name, mb, type(e).__name__, e)

# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0

import os

import sluice

api = sluice.Client(os.environ.get("SLUICE_URL", "http://127.0.0.1:8081"), os.environ.get("SLUICE_TOKEN"))

for i in range(1, 4):
    answer = api.take(rule="login", path="/login", client="192.0.2.8")
    print(f"login {i}:", f"{answer['remaining']} left" if answer["allowed"] else f"denied by {answer['limit']}")

user = {"rule": "llm", "headers": {"X-User": ["bob"]}}
held = api.hold(**user, cost=500, ttl_ms=60_000)
settled = api.settle(**user, cost=120, id=held["id"])
print(f"held {held['cost']}, used {settled['spent']}")

for _ in ("sent", "sent again"):
    api.take("order-17", **user, cost=30)
batch = api.peek(requests=[user, {**user, "cost": 900}])
print(f"left: {batch['results'][0]['remaining']}, all allowed: {batch['allowed']}")

try:
    api.take(rule="login", cost=-1)
except sluice.Problem as fault:
    print("fault of", fault)
